// Heat finds the temperatures of a square plate of which one edge is hot and the
// others are cold: a heat equation on a grid, with an exchange of halos.
//
//	treerun -np 4 ./examples/heat
//	treerun -np 8 ./examples/heat -n 100 -tolerance 1e-5
//
// Each rank has a strip of rows. In every step a point becomes the mean of its four
// neighbors. The rows next to a strip are another rank's: they are its halo, and arrive
// as messages while the inside of the strip is computed. The plate is done when no
// point on any rank changes by more than the tolerance.
//
// Any number of ranks finds the same temperatures, bit by bit.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	n := flag.Int("n", 32, "rows and columns of the grid, without its edges")
	tolerance := flag.Float64("tolerance", 1e-6, "change of a step below which the plate is done")
	flag.Parse()
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	defer w.Close()
	c, err := collective.New(ctx, w)
	check(err)
	// With less than 1e-15, rounding may change points forever.
	if *n < c.Size() || !(*tolerance >= 1e-15) {
		log.Fatalf("%d rows for %d ranks, tolerance %v: want a row for each, and 1e-15 or more", *n, c.Size(), *tolerance)
	}
	r := solve(ctx, c, *n, *tolerance)
	if c.Rank() == 0 {
		fmt.Printf("steps=%d change=%.3g error=%.3g checksum=%016x\n", r.steps, r.change, r.worst, r.checksum)
	}
	check(c.Close())
}

// check ends this rank, and with it the job, if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// result is the result on all ranks.
type result struct {
	steps    int
	change   float64 // the largest of the last step
	worst    float64 // largest difference to the exact solution
	checksum uint64  // of all temperatures
}

// strip is the part of the plate that one rank has, with one more row on each side: the
// halo, or the edge of the plate.
type strip struct {
	n           int // points of a row, without the edges of the plate
	first, rows int // of this rank; the row below the hot edge is number n
	now, next   [][]float64
}

// newStrip returns the strip of a rank; the edge behind the last rank's is hot.
func newStrip(n, rank, size int) *strip {
	first, end := rank*n/size+1, (rank+1)*n/size+1
	s := &strip{n: n, first: first, rows: end - first}
	for range s.rows + 2 {
		s.now, s.next = append(s.now, make([]float64, n+2)), append(s.next, make([]float64, n+2))
	}
	if rank == size-1 {
		for x := range n + 2 {
			s.now[s.rows+1][x] = math.Sin(math.Pi * float64(x) / float64(n+1))
		}
		copy(s.next[s.rows+1], s.now[s.rows+1])
	}
	return s
}

// solve solves the equation with all ranks. It compares the change of every hundredth step
// only, because the AllReduce takes as long as a step.
func solve(ctx context.Context, c *collective.Comm, n int, tolerance float64) (r result) {
	var err error
	s := newStrip(n, c.Rank(), c.Size())
	for done := false; !done; done = r.change <= tolerance {
		for range 100 {
			r.change = s.step(ctx, c)
			r.steps++
		}
		// All ranks get the largest change of all, and so all stop at the same step.
		r.change, err = collective.AllReduceValue(ctx, c, r.change, collective.Max)
		check(err)
	}
	worst, checksum := s.compare()
	r.worst, err = collective.AllReduceValue(ctx, c, worst, collective.Max)
	check(err)
	r.checksum, err = collective.AllReduceValue(ctx, c, checksum, collective.Xor)
	check(err)
	return r
}

// step computes the next value of all points of the strip, and returns the largest change.
func (s *strip) step(ctx context.Context, c *collective.Comm) (change float64) {
	messages := s.exchange(c)
	for y := 2; y < s.rows; y++ { // these rows need no halo
		change = max(change, s.row(y))
	}
	for _, m := range messages {
		check(m.Wait(ctx))
	}
	change = max(change, s.row(1), s.row(s.rows)) // a strip of one row computes it twice
	s.now, s.next = s.next, s.now
	return change
}

// exchange begins to send the outermost rows to the ranks with the neighboring strips,
// and to receive theirs into the halo. Only two messages are in transit with either rank, one
// each way, so that all can have the tag 0.
func (s *strip) exchange(c *collective.Comm) (messages []collective.Message) {
	sides := []struct{ rank, row, halo int }{{c.Rank() - 1, 1, 0}, {c.Rank() + 1, s.rows, s.rows + 1}}
	for _, side := range sides {
		if side.rank < 0 || side.rank == c.Size() {
			continue // the edge of the plate
		}
		in, err := collective.StartRecv(c, s.now[side.halo], side.rank, 0)
		check(err)
		out, err := collective.StartSend(c, s.now[side.row], side.rank, 0)
		check(err)
		messages = append(messages, in, out)
	}
	return messages
}

// row computes the next values of row y, and returns the largest change.
func (s *strip) row(y int) (change float64) {
	above, here, below, next := s.now[y-1], s.now[y], s.now[y+1], s.next[y]
	for x := 1; x <= s.n; x++ {
		next[x] = (above[x] + below[x] + here[x-1] + here[x+1]) / 4
		change = max(change, math.Abs(next[x]-here[x]))
	}
	return change
}

// compare returns the largest difference to the exact solution,
// sin(pi x) sinh(pi y) / sinh(pi), and a checksum of the strip: it combines the bits of all
// temperatures, each multiplied by a number of its point, so that their order does not matter.
func (s *strip) compare() (worst float64, checksum uint64) {
	side := float64(s.n + 1)
	for y := 1; y <= s.rows; y++ {
		for x := 1; x <= s.n; x++ {
			at := s.first + y - 1
			exact := math.Sin(math.Pi*float64(x)/side) * math.Sinh(math.Pi*float64(at)/side) / math.Sinh(math.Pi)
			worst = max(worst, math.Abs(s.now[y][x]-exact))
			checksum ^= math.Float64bits(s.now[y][x]) * uint64(2*(at*s.n+x)+1)
		}
	}
	return worst, checksum
}
