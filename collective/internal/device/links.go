package device

import (
	"fmt"
	"sync/atomic"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
)

// links are the links of a layout, as its rank and its device see them: their flags, and their slots.
type links struct {
	layout    *Layout
	flags     []byte // Config.Flags
	flagsAddr cuda.Addr
	states    []state             // by link of the layout
	pinned    *cuda.Pinned[uint8] // slots of network links; nil: there is none
}

// state is the state, on a rank, of a link that it serves, or whose slots it reads.
type state struct {
	count   uint32                  // payloads of the calls before the one at work
	slots   uint32                  // the slots that those payloads filled
	each    linkUses                // the uses per chunk of the call at work
	waited  uint32                  // the value of released that a stream has waited for
	where   kernels.Where           // where its slots lie
	filled  [][]reader              // sender: by slot, its readers
	highest [counters]atomic.Uint32 // the values that streams may wait for at most

	at     cuda.Addr // where the device sees its slots, as far as it does
	pinned []byte    // of a network link: they are memory of this process
}

// reader is a payload that must be released before its slot is filled again.
type reader struct {
	link  int
	value uint32
}

// newLinks lets all links begin.
func newLinks(cfg *Config) *links {
	l := &links{layout: cfg.Layout, flags: cfg.Flags, flagsAddr: cfg.FlagsAddr}
	l.states = make([]state, len(l.layout.links))
	for i := range l.states {
		k, first := &l.states[i], cfg.First
		switch p, r := l.layout.links[i].owner(l.layout.rank); {
		case p != InDevice:
			k.where = kernels.Host
		case !cfg.Near(r):
			k.where = kernels.Peer
		}
		k.count, k.slots, k.waited = first, first, first
		k.highest[published].Store(first)
		k.highest[released].Store(first)
		k.at = cfg.Slots[i]
		if l.layout.links[i].Src == l.layout.rank {
			k.filled = make([][]reader, l.layout.Slots)
		}
	}
	return l
}

// pin allocates pinned host memory for the slots of the rank's network links, where device and
// proxy meet, and lets their counters begin.
func (l *links) pin(cfg *Config) (err error) {
	n := int(l.layout.Owned[Network][l.layout.rank])
	if n == 0 {
		return nil
	}
	if l.pinned, err = cuda.AllocPinned[uint8](cfg.Device, n); err != nil {
		return fmt.Errorf("network links of %d slots of %d bytes: %w; smaller or fewer slots need less", l.layout.Slots,
			l.layout.SlotBytes, err)
	}
	for i := range l.layout.links {
		k := &l.layout.links[i]
		if k.location != Network || !k.seen[l.layout.rank] {
			continue
		}
		l.states[i].pinned = l.pinned.Host()[k.at:][:l.layout.Slots*l.layout.bytesOf(k)]
		l.states[i].at = l.pinned.Addr() + cuda.Addr(k.at)
		for c := range counters {
			host, _ := l.flag(i, c)
			host.Store(cfg.First)
		}
	}
	return nil
}

// flag returns a counter of link i: where this process sees it, and where its
// device does.
func (l *links) flag(i int, c counter) (*atomic.Uint32, cuda.Addr) {
	at := flagAt(i, c)
	if k := &l.layout.links[i]; k.location == Network && k.Dst == l.layout.rank {
		at += 2 * flagLine
	}
	return word(l.flags, at), l.flagsAddr + cuda.Addr(at)
}

// reached reports whether a counter has come to value: the work that it counts is then done. Any goroutine may call it.
func (l *links) reached(i int, c counter, value uint32) bool {
	host, _ := l.flag(i, c)
	return int32(host.Load()-value) >= 0
}

// allRead reports whether the other ranks have released all that this one sent.
func (l *links) allRead() bool {
	for i := range l.states {
		if l.layout.links[i].Src == l.layout.rank && !l.reached(i, released, l.states[i].count) {
			return false
		}
	}
	return true
}

// passDistance is the distance between the highest value that a stream may wait for and the one to which its flag is
// set so that it passes. Flags are compared as numbers modulo 2^32.
const passDistance = 1 << 30

// passAll sets all flags that streams of this rank may wait for to values that let them pass.
func (l *links) passAll() {
	for i := range l.states {
		k, c := &l.layout.links[i], published
		if k.Src == l.layout.rank {
			c = released
		} else if !k.seen[l.layout.rank] {
			continue
		}
		host, _ := l.flag(i, c)
		host.Store(l.states[i].highest[c].Load() + passDistance)
	}
}

// seqs returns the numbers of a use of a link: its payload is the count-th of the link, and the filled-th to fill a
// slot of its lender, both from 1 on. That slot has the number slot.
func (l *links) seqs(u *use, j uint32) (count, filled, slot uint32) {
	k, lender := &l.states[u.link], &l.states[u.lender]
	count = k.count + j*k.each.n + u.n + 1
	filled = lender.slots + j*lender.each.slots + u.lenderN + 1
	return count, filled, (filled - 1) % uint32(l.layout.Slots)
}

// payload is where the device sees the slot of a chunk that a rank sends.
func (l *links) payload(u *use, j uint32) cuda.Addr {
	_, _, slot := l.seqs(u, j)
	return l.states[u.lender].at + cuda.Addr(int64(slot)*int64(l.layout.bytesOf(&l.layout.links[u.lender])))
}
