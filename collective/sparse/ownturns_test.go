package sparse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank/ranktest"
)

// Several communicators open links to the same aggregators at the same time, each several
// times, as blocks grow: in any order on any rank.
func TestTwoCommunicatorsWithAggregatorsAtOnce(t *testing.T) {
	for _, hosts := range [][]int{oneHost(5), {0, 0, 1, 0, 1}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) { openAtOnce(t, hosts, -1) })
	}
}

// The same where one rank makes all calls on one communicator after those on another, and
// the others make them at once: whoever waits for that rank keeps nobody else waiting.
func TestAggregatorsWhileARankIsElsewhere(t *testing.T) {
	openAtOnce(t, oneHost(5), 1)
}

// openAtOnce has ranks use three communicators at once; inTurn is a rank that uses one
// after the other. The last two of hosts are those of aggregators.
func openAtOnce(t *testing.T, hosts []int, inTurn int) {
	const aggregators = 2
	mustRunHelped(t, hosts, aggregators, func(w *helped, c *collective.Comm) error {
		all := []*collective.Comm{c}
		for range 2 {
			next, err := collective.New(t.Context(), w, collective.WithTopoCache(""), collective.WithGraph(ranktest.Graph(hosts[:c.Size()])))
			if err != nil {
				return err
			}
			all = append(all, next)
		}
		sizes := []int{64, 9000}
		errs := make([]error, len(all))
		reduce := func(i int) {
			for k, size := range sizes {
				errs[i] = errors.Join(errs[i], typed(t, i, all[i], patterns[8], Aggregators, collective.Sum, 20000+i*500+k, size, true))
			}
		}
		var calls sync.WaitGroup
		for i := range all {
			i = (i + c.Rank()) % len(all)
			if c.Rank() == inTurn {
				reduce(i)
			} else {
				calls.Go(func() { reduce(i) })
			}
		}
		calls.Wait()
		return errors.Join(append(errs, all[1].Close(), all[2].Close())...)
	})
}

// A rank that gives up its first call, at whatever point of opening links to the
// aggregators, ends that communicator and nothing else: neither the aggregators nor
// the World.
func TestGivingUpWhileAggregatorsAreFound(t *testing.T) {
	hosts := oneHost(5)
	{
		mustRunHelped(t, hosts, 2, func(w *helped, c *collective.Comm) error {
			if w.Rank() == 0 {
				w.late = 2 * time.Millisecond // which the others wait in AllGathers
			}
			for i := range 12 {
				next, err := collective.New(t.Context(), w, collective.WithTopoCache(""), collective.WithGraph(ranktest.Graph(hosts[:c.Size()])))
				if err != nil {
					return err
				}
				ctx, cancel := t.Context(), func() {}
				if w.Rank() == 1 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
				}
				x := []float32{1}
				_, err = AllReduce(ctx, next, x, x, collective.Sum, Use(Aggregators))
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, collective.ErrCanceled) && !errors.Is(err, collective.ErrAborted) {
					return fmt.Errorf("call %d: %w", i, err)
				}
				next.Close() // an error where the call failed
			}
			return typed(t, 0, c, patterns[8], Aggregators, collective.Sum, 5000, 256, true)
		})
	}
}
