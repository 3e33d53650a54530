// Concurrent makes CALLS AllReduces on each of K communicators: one communicator after the other ("in turn"), one call on
// each after the other ("in rotation"), and from K goroutines ("at once"), in ROUNDS rounds of all three. Rank 0 prints
// the medians in milliseconds, and the ratio of the last to the first. With FORM the calls are package sparse's, in that
// form.
//
//	concurrent K ROUNDS CALLS [FORM]
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/rank"
)

func main() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	must(err)
	c, err := collective.New(ctx, w)
	must(err)
	comms := make([]*collective.Comm, number(1))
	for i := range comms {
		comms[i], err = c.Dup(ctx)
		must(err)
	}
	rounds := number(2)
	var turn, rotation, once []time.Duration
	for range rounds {
		turn = append(turn, timed(c, func() {
			for i := range comms {
				newCalls(comms[i], i).make(number(3)).check()
			}
		}))
		rotation = append(rotation, timed(c, func() {
			var all []*calls
			for i := range comms {
				all = append(all, newCalls(comms[i], i))
			}
			for range number(3) {
				for _, k := range all {
					k.make(1)
				}
			}
			for _, k := range all {
				k.check()
			}
		}))
		once = append(once, timed(c, func() {
			var group sync.WaitGroup
			for i := range comms {
				group.Go(func() { newCalls(comms[i], i).make(number(3)).check() })
			}
			group.Wait()
		}))
	}
	if c.Rank() == 0 {
		var ms []float64
		for _, times := range [][]time.Duration{turn, rotation, once} {
			slices.Sort(times)
			ms = append(ms, times[rounds/2].Seconds()*1e3)
		}
		fmt.Printf("%.1f %.1f %.1f %.2f\n", ms[0], ms[1], ms[2], ms[2]/ms[0])
	}
	for _, comm := range append(comms, c) {
		must(comm.Close())
	}
	must(w.Close())
}

// calls makes the calls of communicator i.
type calls struct {
	comm *collective.Comm
	i    int
	x    []float32
}

func newCalls(comm *collective.Comm, i int) *calls {
	return &calls{comm, i, make([]float32, 1000*(i+1))}
}

// make makes n calls.
func (k *calls) make(n int) *calls {
	for range n {
		for j := range k.x {
			k.x[j] = float32(k.i)
		}
		must(allReduce(k.comm, k.x))
	}
	return k
}

// check checks the last result.
func (k *calls) check() {
	for _, v := range k.x {
		if v != float32(k.i*k.comm.Size()) {
			panic(fmt.Sprintf("communicator %d: %v in place of %d", k.i, v, k.i*k.comm.Size()))
		}
	}
}

func allReduce(comm *collective.Comm, x []float32) error {
	if len(os.Args) <= 4 {
		return collective.AllReduce(context.Background(), comm, x, x, collective.Sum)
	}
	form, err := sparse.ParseForm(os.Args[4])
	must(err)
	_, err = sparse.AllReduce(context.Background(), comm, x, x, collective.Sum, sparse.Use(form))
	return err
}

// timed returns the approximate time of f on the slowest rank.
func timed(c *collective.Comm, f func()) time.Duration {
	must(collective.Barrier(context.Background(), c))
	begin := time.Now()
	f()
	must(collective.Barrier(context.Background(), c))
	return time.Since(begin)
}

// number returns an argument.
func number(i int) int {
	if len(os.Args) <= i {
		must(fmt.Errorf("want K ROUNDS CALLS"))
	}
	n, err := strconv.Atoi(os.Args[i])
	must(err)
	return n
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
