package sim

// Machine has the constants of the hardware and software that run a plan. Times are in microseconds, rates in GB/s (1e9
// bytes). The zero value runs whole messages on links with the costs of the Graph, and no other costs.
type Machine struct {
	// Chunks, as package engine cuts them.
	Slots     int // chunks that a FIFO holds; 0: no limit
	SlotBytes int // largest chunk, a multiple of 64 bytes; 0: a lane's share is one chunk
	MinChunk  int // a share is cut into at least four chunks, unless they became smaller than this

	// A call.
	LaunchUs float64 // from when a rank may begin an operation to its first step
	InFlight int     // operations that a rank works on at a time, in the order of their issue; 0: all

	// A step.
	StepUs    float64 // without its bytes
	AgainUs   float64 // in place of StepUs, of one that sends what is in a window to one more rank
	CallUs    float64 // of the host for a call of the driver: three per batch of steps, or two; 0: steps are not enqueued
	ReduceGBs float64 // bytes of result of a step that reduces; 0: at no cost
	CopyGBs   float64 // bytes of a step that stores without reducing; 0: at no cost
	Cores     int     // steps that a host takes at a time, a rank one; 0: as many as there are tracks
	CoreHosts []int   // by rank, any numbers: those with the same one share Cores, in place of those of a host; nil: hosts
	SwitchUs  float64 // the ranks of a host stay each on one of its Cores and yield it in turn, which takes this
	Inline    bool    // the step itself moves the bytes over the link and lasts until they are there
	InPlace   bool    // on a host, the receiving step reads the sender's window: see the model

	// A chunk between hosts over sockets; see the model. Links inside a host do not use these.
	SocketUs  float64 // of either end, in addition to the bytes; the graph's latency includes it
	SocketGBs float64 // bytes into the kernel at one end and out of it at the other; 0: at no cost
}

// usPerByte is the time per byte at a rate in GB/s, none at rate 0.
func usPerByte(gbs float64) float64 {
	if gbs == 0 {
		return 0
	}
	return 1e-3 / gbs
}
