// Package cpu has instructions of the processor for which Go has no functions, and reads what the kernel
// reports about its cores.
package cpu

// CopyFrom is the size, in bytes, from which Copy uses the instruction for strings of bytes.
const CopyFrom = 1024

// Copy copies src to dst, which has the same length and does not overlap it. It does not allocate. Concurrent calls are
// safe if no call writes memory that another one uses.
//
// An ordinary store first reads the line that it writes. The line of a slot is in the cache of the core that has read
// it last. The string instruction (REP MOVSB) takes whole lines without reading them. Between two cores of an AMD EPYC
// (Zen 5, virtual), ordinary copies to slots and by this instruction, us: 1 KiB 0.56 and 0.24, 8 KiB 2.5 and 1.1,
// 64 KiB 14.7 and 3.4, 1 MiB 213 and 39. It makes no difference how the receiver copies. In a core's own cache 4 KiB
// take 25 and 33 ns, 64 KiB 770 and 580.
func Copy(dst, src []byte) {
	dst = dst[:len(src)]
	if len(src) < CopyFrom {
		copy(dst, src)
		return
	}
	move(dst, src)
}
