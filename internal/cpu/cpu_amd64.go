package cpu

// HasRDPID reports whether the processor has an instruction that reads the number of the core; hasERMS reports whether
// it moves strings of bytes in whole lines.
var hasERMS, HasRDPID = features()

func features() (erms, rdpid bool) {
	const leaf = 7
	if last, _, _ := cpuid(0); last < leaf {
		return false, false
	}
	_, b, c := cpuid(leaf)
	return b&(1<<9) != 0, c&(1<<22) != 0
}

// PrefetchWrite begins to bring the line of p, which is going to be written, into this core's cache.
//
//go:noescape
func PrefetchWrite(p *byte)

func cpuid(leaf uint32) (a, b, c uint32)
