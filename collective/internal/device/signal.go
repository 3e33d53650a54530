package device

import (
	"slices"

	"github.com/treerun/treerun/cuda"
)

// signal has a stream wait for the value of a counter of a link, or set it.
func (g *Group) signal(link int, isReleased bool, value uint32, wait bool) cuda.MemOp {
	_, a := g.flag(link, isReleased)
	return cuda.MemOp{Addr: a, Value: value, Wait: wait}
}

// send puts signals into s, as many at a time as the driver takes.
func (g *Group) send(s *lineup, signals []cuda.MemOp) error {
	for part := range slices.Chunk(signals, cuda.MaxMemOps) {
		if err := g.memOps(s.Stream, part); err != nil {
			return err
		}
	}
	return nil
}

// reached reports whether a counter has come to value: the work that it counts is then done. Any goroutine may call it.
func (g *Group) reached(link int, isReleased bool, value uint32) bool {
	host, _ := g.flag(link, isReleased)
	return int32(host.Load()-value) >= 0
}
