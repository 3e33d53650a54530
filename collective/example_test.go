package collective_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective"
)

var ctx = context.Background()

// A test runs a program without treerun: the ranks are goroutines of the test. In a job, w comes from rank.Init, and
// nothing else changes.
func ExampleInProcess() {
	mean := func(w collective.World, x float64) (float64, error) { // the function under test
		c, err := collective.New(ctx, w)
		if err != nil {
			return 0, err
		}
		m, err := collective.AllReduceValue(ctx, c, x, collective.Avg)
		return m, errors.Join(err, c.Close())
	}
	results := make(chan float64)
	for r, w := range collective.InProcess(3) {
		go func() {
			m, err := mean(w, float64(r))
			if err != nil {
				panic(err) // t.Error, in a test
			}
			results <- m
		}()
	}
	fmt.Println(<-results, <-results, <-results)
	// Output: 1 1 1
}

// Gradients are averaged in place.
func ExampleAllReduce() {
	onRanks(4, func(c *collective.Comm) error {
		grad := []float32{float32(c.Rank()), 1, -1}
		err := collective.AllReduce(ctx, c, grad, grad, collective.Avg)
		if c.Rank() == 0 {
			fmt.Println(grad)
		}
		return err
	})
	// Output: [1.5 1 -1]
}

func ExampleReduce() {
	onRanks(4, func(c *collective.Comm) error {
		const root = 2
		largest := make([]int, 1) // used on root only
		err := collective.Reduce(ctx, c, []int{10 * c.Rank()}, largest, collective.Max, root)
		if c.Rank() == root {
			fmt.Println(largest)
		}
		return err
	})
	// Output: [30]
}

// All ranks begin with the parameters of rank 0.
func ExampleBroadcast() {
	onRanks(3, func(c *collective.Comm) error {
		params := []float64{float64(c.Rank()), 0.5}
		err := collective.Broadcast(ctx, c, params, params, 0)
		if c.Rank() == 2 {
			fmt.Println(params)
		}
		return err
	})
	// Output: [0 0.5]
}

func ExampleAllGather() {
	onRanks(3, func(c *collective.Comm) error {
		all := make([]int32, 2*c.Size())
		err := collective.AllGather(ctx, c, []int32{int32(c.Rank()), -1}, all)
		if c.Rank() == 1 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 -1 1 -1 2 -1]
}

// Each rank keeps the sum of its own part.
func ExampleReduceScatter() {
	onRanks(3, func(c *collective.Comm) error {
		part := make([]int, 1)
		err := collective.ReduceScatter(ctx, c, []int{1, 2, 3}, part, collective.Sum)
		if c.Rank() == 2 {
			fmt.Println(part)
		}
		return err
	})
	// Output: [9]
}

// Rank j gets part j of every rank: rows become columns.
func ExampleAllToAll() {
	onRanks(3, func(c *collective.Comm) error {
		row := []int{10*c.Rank() + 0, 10*c.Rank() + 1, 10*c.Rank() + 2}
		column := make([]int, 3)
		err := collective.AllToAll(ctx, c, row, column)
		if c.Rank() == 1 {
			fmt.Println(column)
		}
		return err
	})
	// Output: [1 11 21]
}

// Rank i has i elements, and every rank gets all elements.
func ExampleAllGatherV() {
	onRanks(4, func(c *collective.Comm) error {
		mine := slices.Repeat([]int{c.Rank()}, c.Rank())
		all := make([]int, 0+1+2+3)
		err := collective.AllGatherV(ctx, c, mine, all, []int{0, 1, 2, 3})
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [1 2 2 3 3 3]
}

// Rank 0 gets the sums of two columns, rank 1 that of one.
func ExampleReduceScatterV() {
	onRanks(2, func(c *collective.Comm) error {
		counts := []int{2, 1}
		part := make([]int, counts[c.Rank()])
		err := collective.ReduceScatterV(ctx, c, []int{1, 2, 3}, part, counts, collective.Sum)
		if c.Rank() == 0 {
			fmt.Println(part)
		}
		return err
	})
	// Output: [2 4]
}

// Ranks exchange the lengths of their messages, and then tokens, as experts of a model do.
func ExampleAllToAllV() {
	onRanks(3, func(c *collective.Comm) error {
		tokens := [][]int32{{10, 11, 12}, {20}, {30, 31}}[c.Rank()]  // of this rank
		counts := [][]int{{1, 0, 2}, {0, 1, 0}, {1, 1, 0}}[c.Rank()] // for each rank
		theirs := make([]int, c.Size())                              // from each rank
		if err := collective.AllToAll(ctx, c, counts, theirs); err != nil {
			return err
		}
		got := make([]int32, theirs[0]+theirs[1]+theirs[2])
		err := collective.AllToAllV(ctx, c, tokens, counts, got, theirs)
		if c.Rank() == 0 {
			fmt.Println(got)
		}
		return err
	})
	// Output: [10 30]
}

// Rank 0 scatters uneven parts, and gathers the results.
func ExampleScatterV() {
	onRanks(3, func(c *collective.Comm) error {
		counts := []int{1, 0, 2}
		var whole []float32 // on rank 0 only
		if c.Rank() == 0 {
			whole = []float32{1, 2, 3}
		}
		part := make([]float32, counts[c.Rank()])
		if err := collective.ScatterV(ctx, c, whole, part, counts, 0); err != nil {
			return err
		}
		for i := range part {
			part[i] *= part[i]
		}
		err := collective.GatherV(ctx, c, part, whole, counts, 0)
		if c.Rank() == 0 {
			fmt.Println(whole)
		}
		return err
	})
	// Output: [1 4 9]
}

// Rank 0 scatters parts, and gathers the results.
func ExampleScatter() {
	onRanks(3, func(c *collective.Comm) error {
		var whole []float32 // on rank 0 only
		if c.Rank() == 0 {
			whole = []float32{1, 2, 3}
		}
		part := make([]float32, 1)
		if err := collective.Scatter(ctx, c, whole, part, 0); err != nil {
			return err
		}
		part[0] *= part[0]
		err := collective.Gather(ctx, c, part, whole, 0)
		if c.Rank() == 0 {
			fmt.Println(whole)
		}
		return err
	})
	// Output: [1 4 9]
}

// The smallest value and the rank that has it, as with MPI_MINLOC.
func ExampleAllReduceFunc() {
	type best struct {
		Loss float32
		Rank int32
	}
	onRanks(4, func(c *collective.Comm) error {
		mine := []best{{[]float32{0.3, 0.1, 0.4, 0.1}[c.Rank()], int32(c.Rank())}}
		err := collective.AllReduceFunc(ctx, c, mine, mine, func(into, from []best) {
			for i := range into {
				if from[i].Loss < into[i].Loss {
					into[i] = from[i]
				}
			}
		})
		if c.Rank() == 0 {
			fmt.Println(mine[0])
		}
		return err
	})
	// Output: {0.1 1}
}

// Every rank gets the position of its lines in a file that all ranks write.
func ExampleExScan() {
	onRanks(3, func(c *collective.Comm) error {
		lines := []int{10, 20, 30}[c.Rank()]
		begin := []int{0}
		err := collective.ExScan(ctx, c, []int{lines}, begin, collective.Sum)
		if c.Rank() == 2 {
			fmt.Println(begin)
		}
		return err
	})
	// Output: [30]
}

// Rank 0 receives messages of its workers as they arrive, whatever their length.
func ExampleProbe() {
	const result = 1 // the tag
	onRanks(3, func(c *collective.Comm) error {
		if c.Rank() > 0 {
			return collective.Send(ctx, c, make([]float32, 10*c.Rank()), 0, result)
		}
		total := 0
		for range c.Size() - 1 {
			st, err := collective.Probe(ctx, c, collective.AnySource, result)
			if err != nil {
				return err
			}
			n, err := collective.Recv(ctx, c, make([]float32, st.Count), st.Source, st.Tag)
			if err != nil {
				return err
			}
			total += n
		}
		fmt.Println(total, "elements")
		return nil
	})
	// Output: 30 elements
}

// Every rank sends a value to the next one.
func ExampleSendRecv() {
	onRanks(4, func(c *collective.Comm) error {
		next, last := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		got := make([]int, 1)
		const tag = 7
		_, err := collective.SendRecv(ctx, c, []int{c.Rank()}, next, got, last, tag)
		if c.Rank() == 0 {
			fmt.Println("from", last, "came", got)
		}
		return err
	})
	// Output: from 3 came [3]
}

// The edges of a domain are exchanged while its inside is computed.
func ExampleStartRecv() {
	onRanks(2, func(c *collective.Comm) error {
		peer, edge, halo := 1-c.Rank(), []float64{float64(c.Rank())}, make([]float64, 1)
		in, err := collective.StartRecv(c, halo, peer, 0)
		if err != nil {
			return err
		}
		out, err := collective.StartSend(c, edge, peer, 0)
		if err != nil {
			return err
		}
		// Cells without neighbors on other ranks are computed here.
		if err := in.Wait(ctx); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(halo)
		}
		return out.Wait(ctx)
	})
	// Output: [1]
}

// An AllReduce runs while the rank computes; Test or another call lets it make progress.
func ExampleStartAllReduce() {
	onRanks(2, func(c *collective.Comm) error {
		x := []int64{1, 2}
		r, err := collective.StartAllReduce(c, x, x, collective.Sum)
		if err != nil {
			return err
		}
		// x must not be touched here.
		if err := r.Wait(ctx); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	// Output: [2 4]
}

// A call whose arguments are checked once runs many times: the slices and all other arguments stay the same.
func ExampleAllReduceInit() {
	onRanks(2, func(c *collective.Comm) error {
		x := []int32{1}
		p, err := collective.AllReduceInit(c, x, x, collective.Sum)
		if err != nil {
			return err
		}
		for range 3 {
			r, err := p.Start()
			if err != nil {
				return err
			}
			if err := r.Wait(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	// Output: [8]
}

// The tensors of a model are reduced in one call, as one message.
func ExampleAllReduceCoalesced() {
	onRanks(2, func(c *collective.Comm) error {
		grads := [][]float32{{1, 2}, {3}, {4, 5, 6}}
		err := collective.AllReduceCoalesced(ctx, c, grads, grads, collective.Sum)
		if c.Rank() == 0 {
			fmt.Println(grads)
		}
		return err
	})
	// Output: [[2 4] [6] [8 10 12]]
}

func ExampleAllReduceValue() {
	onRanks(4, func(c *collective.Comm) error {
		best, err := collective.AllReduceValue(ctx, c, 0.25*float64(c.Rank()), collective.Min)
		if c.Rank() == 3 {
			fmt.Println(best)
		}
		return err
	})
	// Output: 0
}

// Rank 0 reads the settings, and the other ranks get them from rank 0.
func ExampleBroadcastObject() {
	type settings struct {
		Model  string
		Layers []int
	}
	onRanks(3, func(c *collective.Comm) error {
		var s settings
		if c.Rank() == 0 {
			s = settings{"mlp", []int{784, 128, 10}}
		}
		s, err := collective.BroadcastObject(ctx, c, s, 0)
		if c.Rank() == 2 {
			fmt.Println(s)
		}
		return err
	})
	// Output: {mlp [784 128 10]}
}

func ExampleAllGatherObject() {
	onRanks(3, func(c *collective.Comm) error {
		lines := map[string]int{fmt.Sprint("shard-", c.Rank()): 100 * c.Rank()}
		all, err := collective.AllGatherObject(ctx, c, lines)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [map[shard-0:0] map[shard-1:100] map[shard-2:200]]
}

// Rows and columns of a grid of ranks, as for tensor and data parallelism.
func ExampleComm_Split() {
	onRanks(4, func(c *collective.Comm) error {
		const columns = 2
		row, err := c.Split(ctx, c.Rank()/columns, c.Rank())
		if err != nil {
			return err
		}
		sum, err := collective.AllReduceValue(ctx, row, c.Rank(), collective.Sum)
		if c.Rank() == 3 {
			fmt.Println("rank", row.Rank(), "of", row.Size(), "sum", sum)
		}
		return errors.Join(err, row.Close())
	})
	// Output: rank 1 of 2 sum 5
}

// Some ranks work together without the others.
func ExampleComm_Sub() {
	onRanks(4, func(c *collective.Comm) error {
		if c.Rank() == 0 {
			return nil
		}
		workers, err := c.Sub(ctx, []int{1, 2, 3})
		if err != nil {
			return err
		}
		n, err := collective.AllReduceValue(ctx, workers, 1, collective.Sum)
		if c.Rank() == 1 {
			fmt.Println(n, "workers")
		}
		return errors.Join(err, workers.Close())
	})
	// Output: 3 workers
}
