// A job of one rank, and a job of three ranks that are goroutines: both print the same on every system.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	fmt.Print(calls(ctx, w))
	check(w.Close())

	worlds := collective.InProcess(3)
	texts := make([]string, len(worlds))
	var all sync.WaitGroup
	for r, w := range worlds {
		all.Go(func() { texts[r] = calls(ctx, w) })
	}
	all.Wait()
	for _, text := range texts {
		fmt.Print(text)
	}
}

// calls makes calls of each kind, also between some of the ranks, and returns their results.
func calls(ctx context.Context, w collective.World) string {
	c, err := collective.New(ctx, w)
	check(err)
	n, r := w.Size(), w.Rank()
	sum := make([]float64, 1<<16) // of several chunks
	for i := range sum {
		sum[i] = float64(r + i)
	}
	check(collective.AllReduce(ctx, c, sum, sum, collective.Sum))
	gathered := make([]int32, n)
	check(collective.AllGather(ctx, c, []int32{int32(10 + r)}, gathered))
	part, err := c.Split(ctx, r%2, r)
	check(err)
	least := []int64{int64(r)}
	check(collective.AllReduce(ctx, part, least, least, collective.Min))
	check(part.Close())

	got := make([]float32, 1)
	_, err = collective.SendRecv(ctx, c, []float32{float32(r)}, (r+1)%n, got, (r+n-1)%n, 0)
	check(err)
	check(c.Close())
	return fmt.Sprintf("rank %d of %d: sum %v, gathered %v, least %d, got %v\n", r, n, sum[len(sum)-1], gathered,
		least[0], got[0])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
