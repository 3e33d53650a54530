package peers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/topo/gpu"
)

// measure measures all links of the hosts without a cached result, all hosts at the same time, and returns the findings
// of every rank A about links to ranks B, reading their memory.
func (m *meter) measure() ([][]gpu.Finding, error) {
	var mine []turn
	most := 0
	for i := range m.hosts {
		if h := &m.hosts[i]; !h.Kept {
			turns := schedule(h.Devices)
			most = max(most, len(turns))
			if h == m.host {
				mine = turns
			}
		}
	}
	if most == 0 {
		return nil, nil
	}
	var give Offer
	var err error
	if mine != nil {
		if m.buffers, err = newBuffers(m.dev); err == nil {
			give, err = OfferOf(m.dev, m.buffers.source.Addr())
		}
	}
	if m.offers, err = swap(m, give, err); err != nil {
		return nil, err
	}
	self := slices.Index(m.host.Ranks, m.w.Rank())
	var list []gpu.Finding
	for i := range most {
		peer := -1
		if i < len(mine) {
			if p := mine[i].partner(self); p >= 0 {
				peer = m.host.Ranks[p]
			}
		}
		of, err := m.turn(uint64(i), peer)
		if err != nil {
			return nil, err
		}
		if of != nil {
			list = append(list, *of)
		}
	}
	all, err := swap(m, list, nil) // now no rank has another's memory open
	for r, of := range all {
		for _, s := range of {
			if m.buffers != nil && s.Hung && (s.B == m.w.Rank() || r == m.w.Rank()) {
				m.buffers.inUse = true // freeing waits for all copies of a process
			}
		}
	}
	return all, err
}

// turn measures the link to a peer, -1 for none, while other pairs do the same: the lower rank reads, then the higher
// one. All ranks wait for each other in between, and learn of copies that have not ended: the other rank then does not
// try, either.
func (m *meter) turn(number uint64, peer int) (*gpu.Finding, error) {
	self := m.w.Rank()
	t := &pairing{meter: m, number: number, Finding: gpu.Finding{A: self, B: peer}}
	steps := []func() error{
		t.open,
		func() error { return t.readIf(self < peer) },
		func() error { return t.readIf(self > peer) },
	}
	for _, take := range steps {
		var err error
		if peer >= 0 {
			err = take()
		}
		hung := ""
		if t.Hung {
			hung = t.Fault
		}
		faults, err := swap(m, hung, err)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		if peer >= 0 && t.Fault == "" {
			t.Fault = faults[peer]
		}
	}
	if peer < 0 {
		return nil, nil
	}
	if err := t.close(); err != nil {
		m.late = errors.Join(m.late, err) // reported with the next step
	}
	return &t.Finding, nil
}

// pairing is a rank's part in measuring one link.
type pairing struct {
	*meter
	number  uint64
	mapping *cuda.Mapping // of the peer's memory, nil where there is none
	source  cuda.Addr     // where that is
	bytes   int64         // of it to read
	gpu.Finding
}

// readIf reads over the link, if it is this rank's turn and the link is good so far. A fault of the link is noted; the
// error is about this rank's own GPU.
func (t *pairing) readIf(mine bool) error {
	if !mine || t.mapping == nil || t.Fault != "" {
		return nil
	}
	return t.judge(t.read())
}

// judge separates errors of a link, which it notes, from those of this rank's own GPU.
func (t *pairing) judge(err error) error {
	switch {
	case err == nil:
		return nil
	case t.ctx.Err() != nil || errors.Is(err, cuda.ErrDeviceLost) || errors.Is(err, cuda.ErrOutOfMemory):
		return fmt.Errorf("%v: %w", t.dev, err)
	case errors.Is(err, ErrHung):
		t.Hung = true
	}
	t.Fault = err.Error()
	return nil
}

// open writes a pattern for the peer to read, and opens the peer's memory.
func (t *pairing) open() error {
	if err := t.buffers.fill(t.ctx, t.buffers.patternOf(t.number, t.A)); err != nil {
		return fmt.Errorf("%v: %w", t.dev, err)
	}
	var err error
	if t.buffers.spent() {
		err = errors.New("not tried, since other copies of this GPU hang")
	} else {
		err = t.connect()
	}
	t.Refused = errors.Is(err, errRefused)
	t.Unopened = err != nil && !t.Refused && !t.buffers.spent()
	return t.judge(err)
}

// read reads the peer's pattern and then times copies, writes included, over memory that no other rank reads.
func (t *pairing) read() error {
	if err := t.buffers.pull(t.ctx, t.source, t.bytes); err != nil {
		return err
	}
	if err := t.buffers.compare(t.ctx, t.buffers.target(), t.buffers.patternOf(t.number, t.B)); err != nil {
		return fmt.Errorf("rank %d reads wrong data from rank %d: %w", t.A, t.B, err)
	}
	var err error
	target := t.buffers.target().Addr()
	t.GBytesPerSecond, t.LatencyUs, err = t.buffers.time(t.ctx, target, t.source, t.bytes)
	if err == nil {
		t.Push, _, err = t.buffers.time(t.ctx, t.source, target, t.bytes)
	}
	return err
}

// close closes the mapping of the peer's memory. While a copy of this rank hangs the driver would wait for it.
func (t *pairing) close() error {
	switch {
	case t.mapping == nil:
		return nil
	case t.buffers.hung > 0:
		abandoned.Store(t.mapping, true)
		return nil
	}
	return t.mapping.Close()
}

// findings combines the findings of both sides of each link of a host. Ranks that share GPUs with those that have
// measured have the same links.
func findings(h *HostResult, all [][]gpu.Finding) ([]gpu.Finding, error) {
	known := make(map[[2]string]*gpu.Finding)
	of := func(a, b int) [2]string {
		return [2]string{min(h.Devices[a], h.Devices[b]), max(h.Devices[a], h.Devices[b])}
	}
	for a, r := range h.Ranks {
		for _, s := range all[r] {
			b := slices.Index(h.Ranks, s.B)
			if b < 0 || b == a {
				return nil, fmt.Errorf("measure peer links: rank %d reports a link to rank %d", r, s.B)
			}
			f := known[of(a, b)]
			if f == nil {
				f = &gpu.Finding{GBytesPerSecond: s.GBytesPerSecond, Push: s.Push, Refused: true}
				known[of(a, b)] = f
			}
			f.GBytesPerSecond = min(f.GBytesPerSecond, s.GBytesPerSecond)
			f.Push = min(f.Push, s.Push)
			f.LatencyUs = max(f.LatencyUs, s.LatencyUs)
			f.Fault = cmp.Or(f.Fault, s.Fault)
			f.Unopened = f.Unopened || s.Unopened
			f.Hung = f.Hung || s.Hung
			f.Refused = f.Refused && (s.Fault == "" || s.Refused)
		}
	}
	var list []gpu.Finding
	for a := range h.Devices {
		for b := a + 1; b < len(h.Devices); b++ {
			if f := known[of(a, b)]; f != nil {
				f := *f
				f.A, f.B = a, b
				f.Refused = f.Refused && f.Fault != ""
				list = append(list, f)
			}
		}
	}
	return list, nil
}
