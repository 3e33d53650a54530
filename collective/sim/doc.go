// Package sim prices a plan.Plan on a topo.Graph without running it: the steps
// that package exec takes, with a clock. Links and ports are busy for the bytes
// they carry, chunks take time to arrive, slots run out, reductions cost, and
// ranks that share cores wait for one another.
//
// The package is pure: no I/O, no real clock, no goroutine, no global state.
// Events happen in the order of their time, and of their making where times
// are equal, so that the same input gives the same price on every machine. It
// imports plan and topo. It says nothing about whether a plan is right: that is
// for plan.Verify; a plan that gets stuck here is an error, though.
//
// # The model
//
// A step is taken when its track has taken the step before, the chunk it
// receives has arrived and the FIFO it sends to has a slot. It needs a worker
// of its rank and a core of its host where the Machine counts them, and holds
// them for StepUs and the time its bytes take to reduce or copy. Then the chunk
// goes on its way: it holds its link, and every port and adapter on the way,
// for its bytes over their rate, first come first served, each way by itself;
// it flows through them at once, so that the slowest of them decides. The last
// byte arrives the link's latency later. The slot is free again for the sender
// when the receiver's step is done and the word of it, which takes the latency
// too, is back.
package sim
