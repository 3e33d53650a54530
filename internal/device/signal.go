package device

import "github.com/treerun/treerun/cuda"

// mark is a value that a counter of a link comes to.
type mark struct {
	link     int
	released bool // else published
	value    uint32
}

// signals is how streams wait for each other across ranks.
type signals interface {
	// await makes s wait until all marks are there.
	await(s *lineup, marks []mark) error

	// tell makes s set the counters, whose order does not count, when it gets
	// there.
	tell(s *lineup, marks []mark) error

	// reached reports whether whoever sets a counter has, and has done before what
	// that stands for. Any goroutine may ask.
	reached(m mark) (bool, error)
}

// memoryOps are signals by streams that wait for memory and write it.
type memoryOps struct {
	g   *Group
	ops []cuda.MemOp
}

func (m *memoryOps) await(s *lineup, marks []mark) error { return m.do(s, marks, true) }
func (m *memoryOps) tell(s *lineup, marks []mark) error  { return m.do(s, marks, false) }

// do puts one operation per mark into s, as many at a time as the driver takes.
func (m *memoryOps) do(s *lineup, marks []mark, wait bool) error {
	m.ops = m.ops[:0]
	for _, k := range marks {
		_, a := m.g.flag(k.link, k.released)
		m.ops = append(m.ops, cuda.MemOp{Addr: a, Value: k.value, Wait: wait})
	}
	for rest := m.ops; len(rest) > 0; {
		n := min(len(rest), cuda.MaxMemOps)
		if err := s.MemOps(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (m *memoryOps) reached(k mark) (bool, error) {
	host, _ := m.g.flag(k.link, k.released)
	return int32(host.Load()-k.value) >= 0, nil
}
