//go:build linux

package osys

import "github.com/treerun/treerun/internal/cpu"

// QuickCore reports whether Core takes 2 to 4 ns. Where the processor lacks that instruction a segment of Linux's gives
// the core in 20 ns, and where there is no such segment the system call in 110 to 1,100.
var QuickCore = cpu.HasRDPID

var readsSegment = !QuickCore && hasCoreSegment()

// hasCoreSegment reports whether the limit of a segment is the core, as Linux has it for its own functions in user
// space: the segment is of that kind, and agrees with the system call.
func hasCoreSegment() bool {
	const kind, mask = 0x40f500, 0xf0ff00 // data of ring 3, present, expanding down, accessed, of 32 bits
	const tries = 10                      // the kernel may move the thread between two looks
	for range tries {
		rights, before := coreSegment()
		core := getcpu()
		if _, after := coreSegment(); before == after {
			return rights&mask == kind && core == int(after&coreMask)
		}
	}
	return false
}

const coreMask = 0xfff // Linux stores the NUMA node above the number of the core

// Core returns the number of the core on which the calling thread runs, -1 if it is not known.
func Core() int {
	switch {
	case QuickCore:
		return int(rdpid() & coreMask)
	case readsSegment:
		return int(segmentCore() & coreMask)
	}
	return getcpu()
}

func rdpid() uint64

// coreSegment returns the rights and the limit of the segment, 0 where there is none.
func coreSegment() (rights, limit uint32)

// segmentCore returns the limit alone.
func segmentCore() uint32
