// Package sim is not for users: it prices a plan.Plan on a topo.Graph without running it: the
// steps that package engine takes, with a clock. Links and ports are busy for the bytes they
// carry, chunks take time to arrive, slots run out, reductions cost, and ranks that share
// cores wait for one another.
//
// The package is pure: no I/O, no real clock, no goroutine, no global state. Events happen in the order of their time,
// and of their making where times are equal, so that the same input gives the same price on every machine. It imports
// plan and topo. It does not check whether a plan is correct, which plan.Verify does; a plan that gets stuck is an
// error, though.
//
// # The model
//
// A step is taken when its track has taken the step before, the chunk it receives has arrived and the FIFO it sends to
// has a slot. It needs a worker of its rank and a core of its host where the Machine counts them, and holds them for
// StepUs and the time its bytes take to reduce or copy. Then the chunk is sent: it holds its link, and every port on
// the way, for its bytes over their rate, first come first served, each way by itself; it flows through them at once,
// so that the slowest of them decides. The last byte arrives the link's latency later. The slot is free again for the
// sender when the receiver's step is done and the acknowledgement, which takes the latency too, is back.
//
// Where ranks of a host share memory (InPlace), the sender writes a window which the receiver reads: both take the
// bytes over the link's rate, which a stream through the link reached with both at work. Neighboring Sends of the same
// bytes to several ranks (plan.Kind.SendsAgain) are one write: the first takes the time of it, the others AgainUs,
// and every receiver that of its own reading. Ports count all of them. Steps that add to the value that the step before
// stored are one pass with it, as package engine makes them: they take the time of their bytes, but StepUs only once.
//
// Where a host enqueues the steps of a device (CallUs), it does so chunk by chunk without waiting for any, and no step
// begins before it was. The steps of a rank that have one level, in all lanes, are one batch: a call of the driver for
// all waits, if one receives, one for all signals, and launches of up to 16 parts and 40 arrays in between. A batch
// begins when all of its steps can. The levels are those of package device: above the levels of the steps that a step
// waits for, and as late as possible.
//
// Between hosts a link may be a socket (SocketUs, SocketGBs): the step that sends gives the bytes to the kernel, which
// takes SocketUs and the time of copying them, and continues; the step that receives takes the same again to read them.
// The measured latency of a link includes both system calls, so that the rest of it is the way. Links of kind topo.TCP
// between two hosts are one wire for all their ranks.
//
// Where ranks share cores and yield them (SwitchUs), the ranks of a host stand on its cores in turn, and stay there. A
// rank keeps its core as long as it has a step to take. Then the core goes round its ranks in their order, SwitchUs for
// each, as one without work learns that only when its turn comes, and stops at the first that has work. So the plan
// with the fewest turns from the first input to the last result wins: a flat exchange takes twice round a core, to send
// and to receive; in a tree every level, up and down, may take another part of a round. Ranks that went to sleep are
// not counted.
package sim
