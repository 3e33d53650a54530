package sim

import "github.com/treerun/treerun/topo"

// Executor returns the constants with which package engine cuts messages and
// moves them through shared memory, on links whose rate and latency were
// measured there: slots of slotBytes, and steps that move the bytes themselves,
// taken by the one goroutine of a rank. cores is the number that all ranks of a
// host share, 0 for one each; where there are more ranks, one that waits yields
// its core, which takes 1.1 us (sched_yield between processes of one core).
func Executor(slots, slotBytes, cores int) Machine {
	if cores == 0 {
		cores = topo.MaxRanks
	}
	return Machine{
		Slots: slots, SlotBytes: slotBytes, MinChunk: 8 << 10,
		StepUs: 0.15, AgainUs: 0.06, Cores: cores, SwitchUs: switchUs, Inline: true, InPlace: true,
	}
}

const switchUs = 1.1

// Device returns the constants with which collective/internal/device cuts messages and moves them between the memories
// of GPUs: slots of slotBytes in device memory, which the receiving device reads over the link. They are round figures
// of the order of data sheets and published measurements, not measured here: a step is a wait, a kernel, and a write,
// which a stream works off in some microseconds, and the kernels run at the rate of an older GPU's memory: they read
// every operand once, and write. Before, the host has enqueued it by three calls of the driver, at 2.5 us each,
// together with the other steps of its level. They decide at which sizes few steps matter more than few bytes.
func Device(slots, slotBytes int) Machine {
	return Machine{
		Slots: slots, SlotBytes: slotBytes, MinChunk: deviceChunk,
		LaunchUs: 5, StepUs: 4, CallUs: 2.5, ReduceGBs: 800, CopyGBs: 400,
	}
}

const deviceChunk = 128 << 10 // bytes: smaller chunks are all overhead
