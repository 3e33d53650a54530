package collective

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// settles returns whether nothing is under way on c any more, looking now and then without a call that moves it, for
// as long as it takes up to a limit.
func settles(c *Comm, limit time.Duration) (bool, error) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := c.in.Claim("test"); err != nil {
			return false, err
		}
		settled := c.in.Engine.Settled()
		c.in.End()
		if settled {
			return true, nil
		}
	}
	return false, nil
}

// TestBetweenCalls: calls and messages that all ranks have started are done, with the right results, while no rank is
// in a call. There are more chunks than a link has slots.
func TestBetweenCalls(t *testing.T) {
	const count = 1 << 19
	onEveryHost(t, func(c *Comm) error {
		sum, all, got := make([]int32, count), make([]int32, count*c.Size()), make([]int32, count)
		mine := make([]int32, count)
		for i := range mine {
			mine[i] = int32(i + c.Rank())
		}
		next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		reduce, err := StartAllReduce(c, mine, sum, Sum)
		if err != nil {
			return err
		}
		gather, err := StartAllGather(c, mine, all)
		if err != nil {
			return err
		}
		send, err := StartSend(c, mine, next, 1)
		if err != nil {
			return err
		}
		recv, err := StartRecv(c, got, before, 1)
		if err != nil {
			return err
		}
		if settled, err := settles(c, time.Minute); !settled || err != nil {
			return fmt.Errorf("rank %d: calls that were started are under way: %w", c.Rank(), err)
		}
		for i := range sum {
			n := int32(c.Size())
			if want := n*int32(i) + n*(n-1)/2; sum[i] != want {
				return fmt.Errorf("AllReduce: element %d is %d, want %d", i, sum[i], want)
			}
			if want := int32(i + before); got[i] != want {
				return fmt.Errorf("Recv: element %d is %d, want %d", i, got[i], want)
			}
			for r := range c.Size() {
				if v := all[r*count+i]; v != int32(i+r) {
					return fmt.Errorf("AllGather: element %d of rank %d is %d, want %d", i, r, v, i+r)
				}
			}
		}
		for _, r := range []interface{ Test() (bool, error) }{reduce, gather, send, recv} {
			if done, err := r.Test(); !done || err != nil {
				return fmt.Errorf("Test: %v, %v", done, err)
			}
		}
		return nil
	})
}

// TestFunctionsInCallsOnly: a function of the caller's runs in a call of its rank, although the calls before its own
// are done before that.
func TestFunctionsInCallsOnly(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		var in atomic.Bool // a call that may run the function
		var aside atomic.Int32
		x, y := make([]int32, 1<<18), make([]int32, 1<<18)
		first, err := StartAllReduce(c, x, y, Sum)
		if err != nil {
			return err
		}
		a, b := []int32{1, 2, 3}, make([]int32, 3)
		in.Store(true)
		second, err := StartAllReduceFunc(c, a, b, func(into, from []int32) {
			if !in.Load() {
				aside.Add(1)
			}
			for i := range into {
				into[i] += from[i]
			}
		})
		in.Store(false)
		if err != nil {
			return err
		}
		time.Sleep(30 * time.Millisecond)
		in.Store(true)
		for _, r := range []Request{first, second} {
			if err := r.Wait(t.Context()); err != nil {
				return err
			}
		}
		if aside.Load() > 0 || b[2] != 9 {
			return fmt.Errorf("rank %d: the function ran %d times between calls; the sum is %v", c.Rank(), aside.Load(), b)
		}
		return nil
	})
}
