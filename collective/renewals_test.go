package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/internal/testutil"
)

// renewals are the ways to make a communicator of the same ranks.
var renewals = map[string]func(ctx context.Context, c *Comm) (*Comm, error){
	"Dup":   func(ctx context.Context, c *Comm) (*Comm, error) { return c.Dup(ctx) },
	"Split": func(ctx context.Context, c *Comm) (*Comm, error) { return c.Split(ctx, 3, -c.Rank()) },
	"StartDup": func(ctx context.Context, c *Comm) (*Comm, error) {
		d, err := c.StartDup()
		if err != nil {
			return nil, err
		}
		return d.Wait(ctx)
	},
	"Sub": func(ctx context.Context, c *Comm) (*Comm, error) {
		var all []int
		for r := range c.Size() {
			all = append(all, c.Size()-1-r)
		}
		return c.Sub(ctx, all)
	},
}

// longestTestedName is an upper bound, in bytes, of the names here.
const longestTestedName = 64

// A communicator is made of the previous one, which is closed then, again and again: closed ones are not kept in
// memory, nothing else remains, and names stay short.
func TestRenewals(t *testing.T) {
	for how, renew := range renewals {
		for _, hosts := range [][]int{testutil.OneHost(1), testutil.OneHost(2), testutil.OneHost(4), {0, 1}} {
			t.Run(fmt.Sprintf("%s/%v", how, hosts), func(t *testing.T) {
				rounds := testutil.Count(120, 400)
				if slices.Max(hosts) > 0 {
					rounds = testutil.Count(40, 400)
				}
				errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
					return renewed(t, w, c, rounds, renew)
				}, WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// level contains quantities that must not grow with the number of renewals.
type level struct {
	held [4]int
	heap int64
	each time.Duration
}

// renewed renews c, and each of its successors, rounds times in all.
func renewed(t *testing.T, w *testutil.Hosted, first *Comm, rounds int, renew func(context.Context, *Comm) (*Comm,
	error)) error {
	c, ctx := first, t.Context()
	var closed []weak.Pointer[comm.Comm]
	var took []time.Duration
	var early level
	for i := 1; i <= rounds; i++ {
		begin := time.Now()
		next, err := renew(ctx, c)
		if err != nil {
			return fmt.Errorf("renewal %d: %w", i, err)
		}
		took = append(took, time.Since(begin))
		if err := sumOn(ctx, next); err != nil {
			return fmt.Errorf("renewal %d: %w", i, err)
		}
		if len(next.Name()) > longestTestedName {
			return fmt.Errorf("renewal %d is %s", i, next.Name())
		}
		if c != first { // which the caller closes
			closed = append(closed, weak.Make(c.in))
			err = c.Close()
		}
		c = next
		if i == rounds/5 && err == nil {
			early, err = levelOf(t, w, c, took[i/2:])
		}
		if err != nil {
			return err
		}
	}
	late, err := levelOf(t, w, c, took[rounds-rounds/10:])
	if err != nil || w.Rank() > 0 {
		return errors.Join(err, c.Close())
	}
	t.Logf("goroutines, descriptors, mappings, files; bytes; time: %v, then %v", early, late)
	grown := 0
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		grown, late.held = 0, held(t)
		for i := range late.held {
			grown = max(grown, late.held[i]-early.held[i])
		}
		for _, p := range closed {
			if p.Value() != nil {
				grown++
			}
		}
		if grown <= 2 { // a descriptor that the runtime opens, the last one that was closed
			break
		}
	}
	switch {
	case grown > 2:
		err = fmt.Errorf("%d communicators or resources of them are left: %v, %v before", grown, late, early)
	case testutil.Thorough() && late.heap > early.heap+4<<20, testutil.Thorough() && late.each > 10*early.each:
		err = fmt.Errorf("memory or time grows: %v, then %v", early, late)
	}
	return errors.Join(err, c.Close())
}

// levelOf returns, on rank 0, the quantities at a moment when all ranks of c are idle.
func levelOf(t *testing.T, w *testutil.Hosted, c *Comm, took []time.Duration) (l level, err error) {
	if err := Barrier(t.Context(), c); err != nil {
		return l, err
	}
	if w.Rank() == 0 {
		l.held = held(t)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		took = slices.Sorted(slices.Values(took))
		l.heap, l.each = int64(m.HeapAlloc), took[len(took)/10] // not the time that a busy machine takes
	}
	return l, Barrier(t.Context(), c)
}

// Of a chain of communicators, all of them open, each has its own id, the same on its ranks, and its own name; calls of
// one do not meet those of another.
func TestDeepCommunicators(t *testing.T) {
	const depth = 50
	for _, hosts := range [][]int{testutil.OneHost(4), {0, 1, 0}} {
		errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
			all := []*Comm{c}
			for i := range depth {
				of := all[max(0, len(all)-1-i%2)] // sometimes of one that has another part already
				next, err := renewals[[]string{"Dup", "Split", "Sub"}[i%3]](t.Context(), of)
				if err != nil {
					return fmt.Errorf("depth %d: %w", i, err)
				}
				all = append(all, next)
			}
			ids, names := map[string]bool{}, map[string]bool{}
			for _, d := range all {
				id, name := d.in.Setup.World.JobID(), d.Name()
				named, err := AllGatherObject(t.Context(), d, id+" "+name)
				switch {
				case err != nil:
					return err
				case len(slices.Compact(named)) != 1:
					return fmt.Errorf("ids and names of one communicator: %q", named)
				case ids[id] || names[name] || len(name) > longestTestedName || len(id) > longestTestedName:
					return fmt.Errorf("id %s or name %s is another's, or long", id, name)
				}
				ids[id], names[name] = true, true
			}
			for i := range all {
				if err := checkSum(t, all[i], 10+i); err != nil {
					return err
				}
			}
			var err error
			for _, d := range slices.Backward(all[1:]) {
				err = errors.Join(err, d.Close())
			}
			return err
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}

// Groups of one Split have different ids.
func TestIDsOfGroups(t *testing.T) {
	mustRun(t, 4, func(_ *fakeWorld, c *Comm) error {
		half, err := c.Split(t.Context(), c.Rank()/2, 0)
		if err != nil {
			return err
		}
		ids, err := AllGatherObject(t.Context(), c, half.in.Setup.World.JobID())
		if err == nil && (ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2]) {
			err = fmt.Errorf("ids %q", ids)
		}
		return errors.Join(err, half.Close())
	})
}

// The error for a lost rank names it once, by its number in the job, whatever the depth of the communicator.
func TestDeepCommunicatorOfLostRank(t *testing.T) {
	runRanks(t, 4, func(w *fakeWorld, c *Comm) error {
		deep := c
		for range 30 {
			next, err := renewals["Sub"](t.Context(), deep)
			if err != nil {
				return err
			}
			deep = next
		}
		if err := Barrier(t.Context(), deep); err != nil {
			return err
		}
		if c.Rank() == 3 {
			w.Fail(3, errors.New("it was killed"))
			return nil
		}
		var err error
		for err == nil {
			err = Barrier(t.Context(), deep)
		}
		if e := (*RankError)(nil); !errors.As(err, &e) || e.Rank != 3 || !errors.Is(err, ErrRankLost) ||
			!strings.HasSuffix(err.Error(), deep.Name()+": rank 3 of world: it was killed") || len(err.Error()) > 150 {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		return nil
	})
}
