package exec

import (
	"slices"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// stashing returns the message from peer that is being put aside, nil when none
// is: its chunks follow each other on the link.
func (k *Links) stashing(peer int) *stash {
	if all := k.points.stashed[peer]; len(all) > 0 && !all[len(all)-1].whole {
		return &all[len(all)-1]
	}
	return nil
}

// stash puts a chunk aside whose Receive has not been started. Memory grows
// with what came, not with what a header says will come.
func (k *Links) stash(peer int, h transport.Header, chunk []byte) {
	s := k.stashing(peer)
	if s == nil {
		k.points.stashed[peer] = append(k.points.stashed[peer], stash{header: h})
		s = k.stashing(peer)
	}
	s.buf = append(s.buf, chunk...)
	s.whole = uint64(len(s.buf)) >= h.Count*uint64(kernel.DType(h.DType).Size())
}

// takeStashed gives p the oldest message with its tag that was put aside. What
// is still on its way of it comes over the link.
func (k *Links) takeStashed(p *Point) (done bool, err error) {
	all := k.points.stashed[p.Peer]
	i := slices.IndexFunc(all, func(s stash) bool { return s.header.Root == p.Tag })
	if i < 0 {
		return false, nil
	}
	s := all[i]
	if err := p.accept(s.header, len(s.buf)); err != nil {
		return false, err
	}
	p.begun = true
	p.moved = copy(p.Buf, s.buf)
	p.done = s.whole
	k.points.stashed[p.Peer] = slices.Delete(all, i, i+1)
	return p.done, nil
}
