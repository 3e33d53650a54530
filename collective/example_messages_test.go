package collective_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treerun/treerun/collective"
)

// The ranks of each host work together; rank 0 of each could exchange results with other hosts.
func ExampleComm_SplitByHost() {
	onRanks(4, func(c *collective.Comm) error {
		host, err := c.SplitByHost(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(host.Size(), "ranks on this host")
		}
		return host.Close()
	})
	// Output: 4 ranks on this host
}

// Rank 0 takes the results of the others in the order in which they come, and then waits for the next one of that rank.
func ExampleWaitAny() {
	onRanks(3, func(c *collective.Comm) error {
		const each = 8
		if c.Rank() > 0 {
			for i := range each {
				if err := collective.Send(ctx, c, []int{i}, 0, 1); err != nil {
					return err
				}
			}
			return nil
		}
		results, left := make([]int, c.Size()), []int{0, each, each}
		pending, sum := make([]collective.Message, c.Size()), 0
		next := func(r int) (err error) {
			pending[r] = collective.Message{} // which WaitAny ignores
			if left[r]--; left[r] >= 0 {
				pending[r], err = collective.StartRecv(c, results[r:r+1], r, 1)
			}
			return err
		}
		err := errors.Join(next(1), next(2))
		for err == nil {
			var r int
			if r, err = collective.WaitAny(ctx, pending...); r < 0 || err != nil {
				break
			}
			sum += results[r]
			err = next(r)
		}
		fmt.Println("sum", sum)
		return err
	})
	// Output: sum 56
}

func ExampleWaitAll() {
	onRanks(2, func(c *collective.Comm) error {
		var all []collective.Message
		got := make([]int, 3)
		for i := range got {
			in, err := collective.StartRecv(c, got[i:i+1], 1-c.Rank(), i)
			if err != nil {
				return err
			}
			out, err := collective.StartSend(c, []int{10 * i}, 1-c.Rank(), i)
			if err != nil {
				return err
			}
			all = append(all, in, out)
		}
		err := collective.WaitAll(ctx, all...)
		if c.Rank() == 0 {
			fmt.Println(got)
		}
		return err
	})
	// Output: [0 10 20]
}

// The tag of a message decides on the type in which it is received.
func ExampleProbeMatched() {
	onRanks(3, func(c *collective.Comm) error {
		const integers, floats = 1, 2
		switch c.Rank() {
		case 1:
			return collective.Send(ctx, c, []int32{1, 2, 3}, 0, integers)
		case 2:
			return collective.Send(ctx, c, []float64{0.5, 1.5}, 0, floats)
		}
		for range c.Size() - 1 {
			m, err := collective.ProbeMatched(ctx, c, collective.AnySource, collective.AnyTag)
			if err != nil {
				return err
			}
			if m.Tag == integers {
				_, err = collective.RecvMatched(ctx, m, make([]int32, m.Count))
			} else {
				_, err = collective.RecvMatched(ctx, m, make([]float64, m.Count))
			}
			fmt.Println(m, err) // a Matched has a Status
		}
		return nil
	})
	// Unordered output:
	// rank 1, tag 1, count 3 <nil>
	// rank 2, tag 2, count 2 <nil>
}

// Two goroutines of rank 0 serve the others. While one works, the other probes, receives and answers.
func ExampleTryProbeMatched() {
	onRanks(3, func(c *collective.Comm) error {
		if c.Rank() > 0 {
			answer := make([]int, 1)
			_, err := collective.SendRecv(ctx, c, []int{c.Rank()}, 0, answer, 0, 0)
			fmt.Println("rank", c.Rank(), "has", answer[0])
			return err
		}
		var mu sync.Mutex // held during a call
		left := c.Size() - 1
		serve := func() error {
			for {
				mu.Lock()
				m, found, err := collective.TryProbeMatched(c, collective.AnySource, 0)
				if found {
					left--
				}
				done := left == 0 && !found
				mu.Unlock()
				if done || err != nil {
					return err
				}
				if !found {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				request := make([]int, m.Count)
				mu.Lock()
				_, err = collective.RecvMatched(ctx, m, request)
				mu.Unlock()
				request[0] *= 100 // the work
				mu.Lock()
				err = errors.Join(err, collective.Send(ctx, c, request, m.Source, 0))
				mu.Unlock()
				if err != nil {
					return err
				}
			}
		}
		errs := make(chan error, 2)
		go func() { errs <- serve() }()
		go func() { errs <- serve() }()
		return errors.Join(<-errs, <-errs)
	})
	// Unordered output:
	// rank 1 has 100
	// rank 2 has 200
}

// A halo is exchanged in every step, with the same slices.
func ExampleSendInit() {
	onRanks(2, func(c *collective.Comm) error {
		edge, halo, peer := []float64{float64(c.Rank() + 1)}, make([]float64, 1), 1-c.Rank()
		send, err := collective.SendInit(c, edge, peer, 0)
		if err != nil {
			return err
		}
		recv, err := collective.RecvInit(c, halo, peer, 0)
		if err != nil {
			return err
		}
		for range 10 {
			in, err := recv.Start()
			if err != nil {
				return err
			}
			out, err := send.Start()
			if err != nil {
				return err
			}
			if err := collective.WaitAll(ctx, in, out); err != nil {
				return err
			}
			edge[0] = (edge[0] + halo[0]) / 2
		}
		if c.Rank() == 0 {
			fmt.Println(edge)
		}
		return nil
	})
	// Output: [1.5]
}

func ExampleSendSync() {
	onRanks(2, func(c *collective.Comm) error {
		if c.Rank() == 0 {
			err := collective.SendSync(ctx, c, []int{42}, 1, 0)
			fmt.Println("rank 1 has it")
			return err
		}
		_, err := collective.Recv(ctx, c, make([]int, 1), 0, 0)
		return err
	})
	// Output: rank 1 has it
}
