package collective_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective"
)

// The rank with the least loss.
func ExampleAllReduceMinLoc() {
	onRanks(3, func(c *collective.Comm) error {
		loss := []float64{0.7, 0.2, 0.5}[c.Rank()]
		least, rank, err := collective.AllReduceMinLoc(ctx, c, loss)
		if c.Rank() == 0 {
			fmt.Println(least, "on rank", rank)
		}
		return err
	})
	// Output: 0.2 on rank 1
}

// The slowest rank.
func ExampleAllReduceMaxLoc() {
	onRanks(3, func(c *collective.Comm) error {
		took := time.Duration(c.Rank()+1) * time.Second
		most, rank, err := collective.AllReduceMaxLoc(ctx, c, took)
		if c.Rank() == 0 {
			fmt.Println(most, "on rank", rank)
		}
		return err
	})
	// Output: 3s on rank 2
}

// As with MPI_IN_PLACE, each rank has its part at its place in the result.
func ExampleAllGather_inPlace() {
	onRanks(3, func(c *collective.Comm) error {
		all := make([]int, 2*c.Size())
		mine := all[2*c.Rank() : 2*c.Rank()+2]
		mine[0], mine[1] = c.Rank(), -c.Rank()
		err := collective.AllGather(ctx, c, mine, all)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 0 1 -1 2 -2]
}

// The result replaces the rank's own part of the input, as in NCCL; MPI_IN_PLACE puts it at the beginning.
func ExampleReduceScatter_inPlace() {
	onRanks(3, func(c *collective.Comm) error {
		grad := []int{1, 2, 3}
		mine := grad[c.Rank() : c.Rank()+1]
		err := collective.ReduceScatter(ctx, c, grad, mine, collective.Sum)
		if c.Rank() == 1 {
			fmt.Println(grad)
		}
		return err
	})
	// Output: [1 6 3]
}

func ExampleGather() {
	onRanks(3, func(c *collective.Comm) error {
		all := make([]int, c.Size()) // used on root only
		err := collective.Gather(ctx, c, []int{10 * c.Rank()}, all, 0)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 10 20]
}

// Rank 0 gets the results of all ranks.
func ExampleGatherV() {
	onRanks(3, func(c *collective.Comm) error {
		counts := []int{1, 0, 2}
		all := make([]int, 3)
		err := collective.GatherV(ctx, c, make([]int, counts[c.Rank()]), all, counts, 0)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 0 0]
}

// The parts arrive while this rank does other work.
func ExampleStartAllGatherV() {
	onRanks(2, func(c *collective.Comm) error {
		counts, all := []int{1, 2}, make([]int, 3)
		mine := []int{5, 6}[:counts[c.Rank()]]
		r, err := collective.StartAllGatherV(c, mine, all, counts)
		if err != nil {
			return err
		}
		err = r.Wait(ctx)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [5 5 6]
}

// All ranks reach this point before any rank continues.
func ExampleBarrier() {
	onRanks(2, func(c *collective.Comm) error {
		return collective.Barrier(ctx, c)
	})
	// Output:
}

// The sum of the values of all ranks up to this one.
func ExampleScan() {
	onRanks(3, func(c *collective.Comm) error {
		x := []int{1, 2, 3}[c.Rank() : c.Rank()+1]
		err := collective.Scan(ctx, c, x, x, collective.Sum)
		if c.Rank() == 2 {
			fmt.Println(x)
		}
		return err
	})
	// Output: [6]
}

// Rank i gets the composition of the functions x -> a*x + b of ranks 0 to i.
func ExampleScanFunc() {
	type line struct{ A, B int }
	onRanks(3, func(c *collective.Comm) error {
		f := []line{{2, c.Rank()}}
		err := collective.ScanFunc(ctx, c, f, f, func(into, from []line) {
			for i, g := range from {
				into[i] = line{g.A * into[i].A, g.A*into[i].B + g.B}
			}
		})
		if c.Rank() == 2 {
			fmt.Println(f)
		}
		return err
	})
	// Output: [{8 4}]
}

// Each rank gets the combination of the ranks before it.
func ExampleExScanFunc() {
	onRanks(3, func(c *collective.Comm) error {
		letter := []byte{"abc"[c.Rank()]}
		latest := []byte{'-'}
		err := collective.ExScanFunc(ctx, c, letter, latest, func(into, from []byte) { copy(into, from) })
		if c.Rank() == 2 {
			fmt.Println(string(latest))
		}
		return err
	})
	// Output: b
}

// Each rank gets the longest of the ranks' vectors for it.
func ExampleReduceScatterFunc() {
	type vector struct{ X, Y int }
	onRanks(2, func(c *collective.Comm) error {
		all := [][]vector{{{1, 1}, {5, 0}}, {{3, 0}, {0, 2}}}[c.Rank()]
		mine := make([]vector, 1)
		err := collective.ReduceScatterFunc(ctx, c, all, mine, func(into, from []vector) {
			for i, v := range from {
				if v.X*v.X+v.Y*v.Y > into[i].X*into[i].X+into[i].Y*into[i].Y {
					into[i] = v
				}
			}
		})
		if c.Rank() == 1 {
			fmt.Println(mine)
		}
		return err
	})
	// Output: [{5 0}]
}

// The product of matrices, in the order of the ranks.
func ExampleReduceFunc() {
	type matrix [2][2]int
	onRanks(3, func(c *collective.Comm) error {
		step := []matrix{{{1, c.Rank()}, {0, 1}}}
		all := make([]matrix, 1)
		err := collective.ReduceFunc(ctx, c, step, all, func(into, from []matrix) {
			for i, a := range into {
				b := from[i]
				into[i] = matrix{{a[0][0]*b[0][0] + a[0][1]*b[1][0], a[0][0]*b[0][1] + a[0][1]*b[1][1]},
					{a[1][0]*b[0][0] + a[1][1]*b[1][0], a[1][0]*b[0][1] + a[1][1]*b[1][1]}}
			}
		}, 0)
		if c.Rank() == 0 {
			fmt.Println(all[0])
		}
		return err
	})
	// Output: [[1 3] [0 1]]
}

// A weighted mean: each rank multiplies its gradient by its share of the samples.
func ExampleAllReducePreMul() {
	onRanks(2, func(c *collective.Comm) error {
		grad, share := []float32{8}, []float32{0.25, 0.75}[c.Rank()]
		err := collective.AllReducePreMul(ctx, c, grad, grad, share)
		if c.Rank() == 0 {
			fmt.Println(grad)
		}
		return err
	})
	// Output: [8]
}

// All parameters begin as those of rank 0, in one message.
func ExampleBroadcastCoalesced() {
	onRanks(2, func(c *collective.Comm) error {
		x := float32(c.Rank())
		layers := [][]float32{{1 - x, 2 - x}, {3 - x}}
		err := collective.BroadcastCoalesced(ctx, c, layers, layers, 0)
		if c.Rank() == 1 {
			fmt.Println(layers)
		}
		return err
	})
	// Output: [[1 2] [3]]
}

func ExampleSend() {
	onRanks(2, func(c *collective.Comm) error {
		const tag = 7
		if c.Rank() == 0 {
			return collective.Send(ctx, c, []int{1, 2, 3}, 1, tag)
		}
		buf := make([]int, 10)
		n, err := collective.Recv(ctx, c, buf, 0, tag)
		fmt.Println(buf[:n])
		return err
	})
	// Output: [1 2 3]
}

// Close reports a message that its rank has not received.
func ExampleComm_Close() {
	onRanks(2, func(c *collective.Comm) error {
		var err error
		if c.Rank() == 0 {
			err = collective.Send(ctx, c, []float32{1, 2}, 1, 7)
		}
		if err = errors.Join(err, collective.Barrier(ctx, c)); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			fmt.Println(err)
		}
		return nil
	})
	// Output: collective: Close: rank 0 has sent 2 float32 with tag 7, which rank 1 has not received
}

// Rank 0 works until a message has arrived.
func ExampleTryProbe() {
	onRanks(2, func(c *collective.Comm) error {
		if c.Rank() == 1 {
			return collective.Send(ctx, c, []int{42}, 0, 0)
		}
		for {
			st, found, err := collective.TryProbe(c, collective.AnySource, collective.AnyTag)
			if err != nil {
				return err
			}
			if found {
				buf := make([]int, st.Count)
				_, err := collective.Recv(ctx, c, buf, st.Source, st.Tag)
				fmt.Println(buf, "from rank", st.Source)
				return err
			}
		}
	})
	// Output: [42] from rank 1
}

func ExampleGatherObject() {
	onRanks(2, func(c *collective.Comm) error {
		hosts, err := collective.GatherObject(ctx, c, fmt.Sprint("host-", c.Rank()), 0)
		if c.Rank() == 0 {
			fmt.Println(hosts)
		}
		return err
	})
	// Output: [host-0 host-1]
}

// Calls on memory that the other ranks of the host can read need no copies.
func ExampleAlloc() {
	onRanks(2, func(c *collective.Comm) error {
		grad, err := collective.Alloc[float32](c, 1<<20)
		if err != nil {
			return err
		}
		defer collective.Free(c, grad)
		return collective.AllReduce(ctx, c, grad, grad, collective.Sum)
	})
	// Output:
}

// A library uses a communicator of its own, so that its messages do not match those of the caller.
func ExampleComm_Dup() {
	onRanks(2, func(c *collective.Comm) error {
		own, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(c.Name(), "and", own.Name())
		}
		return errors.Join(collective.Barrier(ctx, own), own.Close())
	})
	// Output: world and world/split#1
}

// The copy is made while the program computes.
func ExampleComm_StartDup() {
	onRanks(2, func(c *collective.Comm) error {
		started, err := c.StartDup()
		if err != nil {
			return err
		}
		x := []int{c.Rank()}
		if err := collective.AllReduce(ctx, c, x, x, collective.Max); err != nil {
			return err
		}
		own, err := started.Wait(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(x, own.Name())
		}
		return errors.Join(collective.Barrier(ctx, own), own.Close())
	})
	// Output: [1] world/dup#1
}

// One rank ends the call of all ranks, which get the reason.
func ExampleComm_Abort() {
	onRanks(2, func(c *collective.Comm) error {
		if c.Rank() == 1 {
			c.Abort(errors.New("the loss is NaN"))
			return nil
		}
		err := collective.Barrier(ctx, c)
		var failed *collective.RankError
		if errors.As(err, &failed) {
			fmt.Println("rank", failed.Rank, errors.Is(err, collective.ErrAborted))
		}
		return nil
	})
	// Output: rank 1 true
}

// If a rank waits for more than a minute, the communicator ends on all ranks.
func ExampleWithStallTimeout() {
	onRanks(2, func(c *collective.Comm) error {
		return collective.Barrier(ctx, c)
	}, collective.WithName("training"), collective.WithStallTimeout(time.Minute))
	// Output:
}

// A goroutine serves the other ranks on a communicator of its own, until it is stopped.
func ExampleProbeFor() {
	onRanks(2, func(c *collective.Comm) error {
		d, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		defer d.Close()
		if c.Rank() == 1 { // requests the square of 7
			x := []int{7}
			if err := collective.Send(ctx, d, x, 0, 0); err != nil {
				return err
			}
			_, err := collective.Recv(ctx, d, x, 0, 0)
			fmt.Println(x)
			return errors.Join(err, collective.Barrier(ctx, c))
		}
		stop, served := make(chan bool), make(chan error)
		go func() {
			for {
				st, found, err := collective.ProbeFor(ctx, d, collective.AnySource, 0, 10*time.Millisecond)
				if found {
					x := make([]int, st.Count)
					_, err = collective.Recv(ctx, d, x, st.Source, st.Tag)
					x[0] *= x[0]
					err = errors.Join(err, collective.Send(ctx, d, x, st.Source, st.Tag))
				}
				select {
				case <-stop:
					served <- err
					return
				default:
				}
				if err != nil {
					c.Abort(err)
				}
			}
		}()
		err = collective.Barrier(ctx, c)
		close(stop)
		return errors.Join(err, <-served)
	})
	// Output: [49]
}

// Messages of any length are received from any rank, while this rank does other work.
func ExampleMessage_Status() {
	onRanks(3, func(c *collective.Comm) error {
		if c.Rank() > 0 {
			return collective.Send(ctx, c, make([]float64, c.Rank()), 0, 10*c.Rank())
		}
		var all []collective.Message
		for range c.Size() - 1 {
			m, err := collective.StartRecv(c, make([]float64, 8), collective.AnySource, collective.AnyTag)
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		got := make([]collective.Status, c.Size())
		for _, m := range all {
			if err := m.Wait(ctx); err != nil {
				return err
			}
			got[m.Status().Source] = m.Status()
		}
		fmt.Println(got[1:])
		return nil
	})
	// Output: [rank 1, tag 10, count 1 rank 2, tag 20, count 2]
}
