package sparse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank/ranktest"
)

// helped is the World of a rank, or an aggregator, of a job whose last members are
// aggregators.
type helped struct {
	*world
	aggregators int
	stranger    bool          // has other keys
	turn        chan struct{} // room for one
	late        time.Duration // to every AllGather
}

func (h *helped) DeriveKey(purpose string) []byte {
	key := h.world.DeriveKey(purpose)
	if h.stranger {
		key[0]++
	}
	return key
}

func (h *helped) Size() int        { return h.world.Size() - h.aggregators }
func (h *helped) Aggregators() int { return h.aggregators }

// Turn is that of rank.World.
func (h *helped) Turn(ctx context.Context) (release func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// gather is an AllGather of all members with a byte in front that says of what kind.
func (h *helped) gather(ctx context.Context, kind byte, blob []byte) (byte, [][]byte, error) {
	time.Sleep(h.late)
	all, err := h.world.AllGather(ctx, append([]byte{kind}, blob...))
	if err != nil {
		return 0, nil, err
	}
	out := make([][]byte, len(all))
	for r, b := range all {
		out[r] = b[1:]
	}
	return all[0][0], out, nil
}

func (h *helped) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	_, all, err := h.gather(ctx, 'r', blob)
	if err != nil {
		return nil, err
	}
	return all[:h.Size()], nil
}

func (h *helped) AllGatherWhole(ctx context.Context, blob []byte) ([][]byte, error) {
	_, all, err := h.gather(ctx, 'w', blob)
	return all, err
}

func (h *helped) Follow(ctx context.Context) ([][]byte, error) {
	for {
		if kind, all, err := h.gather(ctx, 0, nil); err != nil || kind == 'w' {
			return all, err
		}
	}
}

// runHelped is runRanks with aggregators: the last of hosts are theirs.
func runHelped(t *testing.T, hosts []int, aggregators int, body func(w *helped, c *collective.Comm) error) []error {
	t.Helper()
	size := len(hosts) - aggregators
	var ranks sync.WaitGroup
	ranks.Add(size)
	over, end := context.WithCancel(t.Context())
	go func() { ranks.Wait(); end() }()
	return ranktest.New(hosts...).Run(t, func(member *ranktest.World) error {
		w := &helped{world: worldOf(member), aggregators: aggregators, turn: make(chan struct{}, 1)}
		if w.Rank() < size {
			defer ranks.Done()
			return asRank(t, w, hosts[:size], func(c *collective.Comm) error { return body(w, c) })
		}
		err := Serve(over, w)
		if _, lost := w.Failure(); over.Err() == nil && lost == nil {
			t.Errorf("aggregator %d ended: %v", w.Rank()-size, err)
		}
		return nil
	})[:size]
}

func mustRunHelped(t *testing.T, hosts []int, aggregators int, body func(w *helped, c *collective.Comm) error) {
	t.Helper()
	for r, err := range runHelped(t, hosts, aggregators, body) {
		if err != nil {
			t.Fatalf("rank %d of %v with %d aggregators: %v", r, hosts, aggregators, err)
		}
	}
}

// ownLayouts are hosts of ranks and aggregators, and how many of these there are.
var ownLayouts = []struct {
	hosts       []int
	aggregators int
}{
	{oneHost(3), 1}, // two ranks
	{oneHost(2), 1}, // one rank, which needs nobody
	{oneHost(7), 2},
	{oneHost(6), 3},
	{[]int{0, 1, 2, 3}, 2},       // hosts of their own
	{[]int{0, 0, 1, 1, 2}, 1},    // one host of its own
	{[]int{0, 0, 1, 1, 0, 1}, 2}, // beside the ranks
}

// With aggregators of their own the results are the same, one call after the other,
// whatever form the calls in between have.
func TestOwnAggregators(t *testing.T) {
	layouts := ownLayouts
	if testing.Short() {
		layouts = layouts[5:] // with hosts of their own, and beside the ranks
	}
	for _, l := range layouts {
		t.Run(fmt.Sprint(l.hosts, l.aggregators), func(t *testing.T) {
			mustRunHelped(t, l.hosts, l.aggregators, func(_ *helped, c *collective.Comm) error {
				if c.Size() != len(l.hosts)-l.aggregators {
					return fmt.Errorf("%d ranks", c.Size())
				}
				i := 0
				for _, p := range patterns {
					for _, count := range []int{0, 1, 255, 256, 257, 5000, 40001} {
						size := []int{16, 256, 300, 3000}[i%4]
						form := []Form{Aggregators, Aggregators, Aggregators, Trees}[i%4]
						if err := typed(t, i, c, p, form, operations[i/6%3], count, size, i/18%2 == 0); err != nil {
							return err
						}
						i++
					}
				}
				return nil
			})
		})
	}
}

// What the caller is told: how many aggregators there were, and that the worker's
// blocks went to them, each once.
func TestOwnStats(t *testing.T) {
	mustRunHelped(t, oneHost(6), 2, func(_ *helped, c *collective.Comm) error {
		const size, blocks = 256, 2000
		x := make([]float32, size*blocks)
		for b := c.Rank(); b < blocks; b += 40 {
			x[b*size] = 1
		}
		s, err := AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum, Use(Aggregators))
		if err != nil {
			return err
		}
		calls := int64(s.OwnAggregators) * 36
		if s.OwnAggregators != 2 || s.WorkerBlocks != int64(s.NonZero) || s.SentBlocks != s.WorkerBlocks || s.SentBytes != s.WorkerBytes+calls {
			return fmt.Errorf("%+v", s)
		}
		if !strings.Contains(s.String(), "aggregators (2 of their own): 50 of 2000 blocks") {
			return fmt.Errorf("words %q", s)
		}
		s, err = AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum, Use(Trees))
		if err == nil && s.OwnAggregators != 0 {
			err = fmt.Errorf("trees with aggregators: %+v", s)
		}
		return err
	})
}

// Two communicators of all ranks are served by the same aggregators, also while a
// call of each is under way; one that Split has made of some ranks, or of all, is not.
func TestOwnAggregatorsOfSeveralCommunicators(t *testing.T) {
	mustRunHelped(t, oneHost(6), 2, func(w *helped, c *collective.Comm) error {
		second, err := collective.New(t.Context(), w, collective.WithTopoCache(""), collective.WithGraph(ranktest.Graph(oneHost(4))))
		if err != nil {
			return err
		}
		defer second.Close()
		all := []*collective.Comm{c, second}
		errs := make([]error, len(all))
		var calls sync.WaitGroup
		for i := range all {
			calls.Go(func() {
				for k := range 20 {
					if errs[i] = typed(t, i+k, all[i], patterns[8], Aggregators, collective.Sum, 9000+i*500, 256, true); errs[i] != nil {
						return
					}
				}
			})
		}
		calls.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		part, err := c.Split(t.Context(), c.Rank()%2, 0)
		if err != nil {
			return err
		}
		x := make([]float32, 1000)
		x[c.Rank()] = 1
		s, err := AllReduce(t.Context(), part, x, x, collective.Sum, Use(Aggregators))
		if err == nil && (s.OwnAggregators != 0 || s.Form != Aggregators) {
			err = fmt.Errorf("on some ranks: %+v", s)
		}
		return errors.Join(err, part.Close())
	})
}

// An aggregator that ends, and a rank that ends, aborts or leaves, end the call of
// all ranks with the same cause, which names it.
func TestOwnAggregatorsStopped(t *testing.T) {
	type stop struct {
		do   func(w *helped, c *collective.Comm)
		kind error
		rank int
		says string
	}
	stops := map[string]stop{
		// As rank.World tells it.
		"aggregator": {func(w *helped, _ *collective.Comm) {
			w.Fail(-1, errors.New("aggregator 1: killed by SIGKILL on host host1"))
		},
			collective.ErrRankLost, -1, "aggregator 1: killed by SIGKILL on host host1"},
		"rank":    {func(w *helped, _ *collective.Comm) { w.Fail(2, errors.New("killed by SIGKILL")) }, collective.ErrRankLost, 2, "killed by SIGKILL"},
		"aborted": {func(_ *helped, c *collective.Comm) { c.Abort(errors.New("enough")) }, collective.ErrAborted, 2, "enough"},
		"closed":  {func(_ *helped, c *collective.Comm) { c.Close() }, collective.ErrPeerClosed, 2, "rank 2 closed"},
	}
	for i, hosts := range [][]int{oneHost(6), {0, 0, 1, 1, 0, 1}, {0, 1, 2, 3, 4, 5}} {
		for name, s := range stops {
			if i != 1 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprint(hosts, name), func(t *testing.T) {
				errs := runHelped(t, hosts, 2, func(w *helped, c *collective.Comm) error {
					return reduceUntil(t, c, 1<<18, 40*time.Millisecond, func() { s.do(w, c) }, Use(Aggregators))
				})
				wantStop(t, errs, s.kind, s.rank, s.says)
			})
		}
	}
}

// A communicator has failed whose links to the aggregators could not be opened. The
// aggregators go on with the next.
func TestOwnAggregatorsAfterLinksThatDoNotOpen(t *testing.T) {
	for _, hosts := range [][]int{oneHost(6), {0, 1, 2, 3, 4, 5}} {
		mustRunHelped(t, hosts, 2, func(w *helped, c *collective.Comm) error {
			w.stranger = w.Rank() == 2
			x := []float32{1}
			_, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Aggregators))
			if !errors.Is(err, collective.ErrLink) {
				return fmt.Errorf("with another key: %v", err)
			}
			w.stranger = false
			next, err := collective.New(t.Context(), w, collective.WithTopoCache(""), collective.WithGraph(ranktest.Graph(hosts[:4])))
			if err != nil {
				return err
			}
			defer next.Close()
			return typed(t, 0, next, patterns[8], Aggregators, collective.Sum, 5000, 256, true)
		})
	}
}

func FuzzParseInvitations(f *testing.F) {
	i := invitation{number: 3, block: 1024}
	f.Add(i.encode(), i.encode())
	f.Add(i.encode(), invitation{number: 4, block: 1024}.encode())
	f.Add([]byte(invitationMagic), []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		i, err := parseInvitations([][]byte{a, b})
		if err != nil {
			return
		}
		if i.block == 0 || i.block > mostBlockBytes || string(i.encode()) != string(a) || string(a) != string(b) {
			t.Fatalf("%q and %q were taken for %+v", a, b, i)
		}
	})
}
