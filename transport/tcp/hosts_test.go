package tcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// open makes endpoints for ranks on made-up hosts: rank r is on hosts[r].
func open(t *testing.T, l transport.Layout, hosts []int) []transport.Endpoint {
	t.Helper()
	return openSome(t, l, hosts, nil)
}

// openSome connects at once only the pairs for which first returns true, or all if it is nil.
func openSome(t *testing.T, l transport.Layout, hosts []int, first func(a, b int) bool) []transport.Endpoint {
	t.Helper()
	return openWith(t, l, hosts, func(r int, cfg *tcp.Config) {
		if first != nil {
			cfg.First = func(b int) bool { return first(r, b) }
		}
	})
}

// openWith has change adapt the configuration of each rank.
func openWith(t *testing.T, l transport.Layout, hosts []int, change func(r int, cfg *tcp.Config)) []transport.Endpoint {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Limit)
	defer cancel()
	all, errs := make([]transport.Endpoint, l.Size), make([]error, l.Size)
	between, within := newTable(l.Size), map[int]*table{}
	for _, h := range hosts {
		within[h] = newTable(l.Size)
	}
	var wg sync.WaitGroup
	for r := range all {
		wg.Go(func() {
			apart := l
			apart.HeapBytes = 0
			cfg := &tcp.Config{Layout: apart, Hosts: hosts, Config: netconn.Config{
				Rank: r, Size: l.Size, Key: make([]byte, 32), JobID: "test", Purpose: "test",
				Listen:   []netip.Addr{netip.MustParseAddr("127.0.0.1")},
				Exchange: between.exchange(r, l.Member, l.Size),
			}}
			change(r, cfg)
			remote, err := tcp.Connect(ctx, cfg)
			if err != nil {
				errs[r] = err
				return
			}
			local, err := shm.Connect(ctx, config(r, within[hosts[r]], together(l, hosts, hosts[r])))
			if err != nil {
				errs[r] = errors.Join(err, remote.Close())
				return
			}
			all[r], errs[r] = tcp.New(cfg, local, remote)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

func config(r int, tab *table, l transport.Layout) shm.Config {
	return shm.Config{Rank: r, Layout: l, Key: make([]byte, shm.KeyBytes), JobID: "test", Doorbell: true,
		Exchange: tab.exchange(r, l.Member, l.MemberCount())}
}

// together is the layout of one host.
func together(l transport.Layout, hosts []int, host int) transport.Layout {
	for r, h := range hosts {
		if h == host {
			l.Members = append(l.Members, r)
		}
	}
	return l
}

// table is an all-gather between goroutines.
type table struct {
	mu     sync.Mutex
	rounds map[int]*round
	next   []int
}

type round struct {
	blobs [][]byte
	given int
	full  chan struct{}
}

func newTable(size int) *table { return &table{rounds: map[int]*round{}, next: make([]int, size)} }

func (t *table) exchange(rank int, member func(int) int, n int) func(context.Context, []byte) ([][]byte, error) {
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		t.mu.Lock()
		i := t.next[rank]
		t.next[rank]++
		r := t.rounds[i]
		if r == nil {
			r = &round{blobs: make([][]byte, n), full: make(chan struct{})}
			t.rounds[i] = r
		}
		for m := range n {
			if member(m) == rank {
				r.blobs[m] = blob
			}
		}
		if r.given++; r.given == n {
			close(r.full)
		}
		t.mu.Unlock()
		select {
		case <-r.full:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A fault that only one side of one rank knows reaches ranks that it has no link with.
func TestFaultsComeRound(t *testing.T) {
	hosts := []int{0, 0, 1, 1}
	all := open(t, transport.Layout{Size: 4, Slots: 2, SlotBytes: 64}, hosts)
	want := transport.Fault{Rank: 3, Text: "gone"}
	all[3].Abort(want)
	for r, e := range all {
		if f := testutil.AwaitFault(e); f != want {
			t.Errorf("rank %d: fault %+v", r, f)
		}
	}
	for r, e := range all {
		if err := e.Close(); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Ranks of two hosts fail at the same time, each for a reason of its own; only one of each host has a connection to the
// other. All ranks report the same cause.
func TestOneCauseOnAllHosts(t *testing.T) {
	hosts := []int{0, 0, 1, 1}
	l := transport.Layout{Size: 4, Slots: 2, SlotBytes: 64}
	firsts := func(a, b int) bool { return a%2 == 0 && b%2 == 0 }
	for _, failing := range [][]int{{1, 3}, {0, 2}, {0, 1, 2, 3}} {
		for range 5 {
			all := openSome(t, l, hosts, firsts)
			var wg sync.WaitGroup
			first := make([]transport.Fault, len(all))
			for r, e := range all {
				wg.Go(func() {
					if slices.Contains(failing, r) {
						e.Abort(transport.Faultf(transport.FaultDevice, r, "by rank %d", r))
					}
					first[r] = testutil.AwaitFault(e)
				})
			}
			wg.Wait()
			for r, f := range first {
				if f != first[0] || f.Text != fmt.Sprintf("by rank %d", f.Rank) {
					t.Errorf("ranks %v fail: rank %d reports %+v, rank 0 %+v", failing, r, f, first[0])
				}
			}
			for _, e := range all {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Allocated memory is lent within the host.
func TestSharedMemoryIsTheHosts(t *testing.T) {
	all := open(t, transport.Layout{Size: 3, Slots: 2, SlotBytes: 64, HeapBytes: 2 << 20}, []int{0, 0, 1})
	b, err := all[0].Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	if !all[0].Shared(b) || all[0].Shared(make([]byte, 8)) {
		t.Error("what Alloc gave out is shared, and nothing else")
	}
	at, ok := all[0].Offset(b)
	seen, err := all[1].View(0, at, len(b))
	if !ok || err != nil {
		t.Fatalf("rank 1 looks at rank 0's block: %v, %v", ok, err)
	}
	if b[3] = 5; seen[3] != 5 {
		t.Error("rank 1 does not see the data of rank 0")
	}
	if _, err := all[2].View(0, at, len(b)); err == nil {
		t.Error("rank 2, on another host, sees rank 0's memory")
	}
	if err := all[0].Free(b); err != nil {
		t.Error(err)
	}
	if _, err := all[0].Sender(0, 7); !errors.Is(err, transport.ErrNoLink) {
		t.Errorf("link to rank 7 of 3: %v", err)
	}
	for _, e := range all {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// One payload goes to a rank of the host and to a rank elsewhere, from whichever link holds it.
func TestShareAcross(t *testing.T) {
	all := open(t, transport.Layout{Size: 3, Slots: 2, SlotBytes: 256}, []int{0, 0, 1})
	for turn := range 2 {
		lender, other := 1+turn, 2-turn
		s, _ := all[0].Sender(0, lender)
		o, _ := all[0].Sender(0, other)
		w, ok, err := s.TryReserve(100)
		if _, free, err2 := o.TryReserve(0); !ok || !free || err != nil || err2 != nil {
			t.Fatal(ok, free, err, err2)
		}
		for i := range w {
			w[i] = byte(i + turn)
		}
		h := call.Header{Seq: uint64(turn + 1)}
		o.Share(&h, s)
		s.Commit(&h)
		o.Wake()
		for r := 1; r < 3; r++ {
			in, _ := all[r].Receiver(0, 0)
			err := testutil.Receive(all[r], in, func(got call.Header, b []byte) error {
				if got != h || len(b) != 100 || b[0] != byte(turn) || b[99] != byte(99+turn) {
					return fmt.Errorf("rank %d: %+v with %d bytes", r, got, len(b))
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	for _, e := range all {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Ranks of a host read each other's own memory, also where other ranks are on another host: a rank reads lent memory of
// its neighbor in place, however long it is.
func TestOwnMemoryOfLocalRanks(t *testing.T) {
	const slotBytes = 256
	all := open(t, transport.Layout{Size: 3, Slots: 2, SlotBytes: slotBytes}, []int{0, 0, 1})
	for a := range all {
		for b := range all {
			if got, why := all[a].Reaches(b); a != b && got != (a < 2 && b < 2) {
				t.Errorf("rank %d reaches rank %d: %v %s", a, b, got, why)
			}
		}
	}
	s, err := all[0].Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	end, err := all[1].Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	own, into := make([]byte, 40*slotBytes), make([]byte, 40*slotBytes)
	for i := range own {
		own[i] = byte(i * 7)
	}
	h := call.Header{Seq: 1, Count: uint64(len(own))}
	s.Lend(&h, own, false)
	all[0].Fence()
	s.Wake()
	var got call.Header
	b, ok, err := end.(transport.LentReceiver).TryPeekInto(&got, into)
	if !ok || err != nil || got != h || !slices.Equal(b, own) {
		t.Errorf("%d bytes of %d, header %+v, %v, %v", len(b), len(own), got, ok, err)
	}
	if end.Release(); !s.Returned() {
		t.Error("lent memory has not come back")
	}
	for _, e := range all {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
