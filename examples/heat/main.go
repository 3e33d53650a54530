// Heat finds the temperatures of a square plate of which one edge is hot and the
// others are cold: a heat equation on a grid, with an exchange of halos.
//
//	treerun -np 4 ./examples/heat
//	treerun -np 8 ./examples/heat -n 100 -tolerance 1e-5
//
// The ranks are a grid, and each has a part of the rows and columns. In every step a point
// becomes the mean of its four neighbors. The rows and columns next to a part are another
// rank's: they are its halo, which one Exchange brings. The plate is done when no point on
// any rank changes by more than the tolerance.
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
	if dims := collective.Dims(c.Size(), 2); *n < dims[0] || !(*tolerance >= 1e-15) {
		log.Fatalf("%d rows for a grid of %v ranks, tolerance %v: want a row for each, and 1e-15 or more", *n, dims,
			*tolerance)
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

// part is the part of the plate that one rank has, with one more row and column on each side: the
// halo, or the edge of the plate.
type part struct {
	n              int // points of a row of the plate, without its edges
	top, left      int // numbers of the first row and column of the part, from 1; the row below the hot edge is number n
	rows, columns  int
	now, next      [][]float64
	outgo, arrived [][]float64 // for Exchange: the rows above and below, and the columns to the left and right
}

// newPart returns the part of the rank at these coordinates of a grid; the edge of the last row is hot.
func newPart(n int, dims, at []int) *part {
	first := func(d, i int) int { return i*n/dims[d] + 1 }
	p := &part{n: n, top: first(0, at[0]), left: first(1, at[1])}
	p.rows, p.columns = first(0, at[0]+1)-p.top, first(1, at[1]+1)-p.left
	for range p.rows + 2 {
		p.now, p.next = append(p.now, make([]float64, p.columns+2)), append(p.next, make([]float64, p.columns+2))
	}
	if at[0] == dims[0]-1 {
		for x := range p.columns + 2 {
			p.now[p.rows+1][x] = math.Sin(math.Pi * float64(p.left-1+x) / float64(n+1))
		}
		copy(p.next[p.rows+1], p.now[p.rows+1])
	}
	for range 4 {
		p.outgo, p.arrived = append(p.outgo, make([]float64, p.rows)), append(p.arrived, make([]float64, p.rows))
	}
	return p
}

// solve solves the equation with all ranks. It compares the change of every hundredth step
// only, because the AllReduce takes as long as a step.
func solve(ctx context.Context, c *collective.Comm, n int, tolerance float64) (r result) {
	dims := collective.Dims(c.Size(), 2)
	grid, err := collective.NewGrid(c, dims, nil)
	check(err)
	p := newPart(n, dims, grid.Coords(c.Rank()))
	for done := false; !done; done = r.change <= tolerance {
		for range 100 {
			p.exchange(ctx, grid)
			r.change = p.step()
			r.steps++
		}
		// All ranks get the largest change of all, and so all stop at the same step.
		r.change, err = collective.AllReduceValue(ctx, c, r.change, collective.Max)
		check(err)
	}
	worst, checksum := p.compare()
	r.worst, err = collective.AllReduceValue(ctx, c, worst, collective.Max)
	check(err)
	r.checksum, err = collective.AllReduceValue(ctx, c, checksum, collective.Xor)
	check(err)
	return r
}

// exchange fills the halo. A column is no slice, and is copied; at the edge of the plate it stays 0.
func (p *part) exchange(ctx context.Context, grid *collective.Grid) {
	p.outgo[0], p.outgo[1] = p.now[1][1:p.columns+1], p.now[p.rows][1:p.columns+1]
	p.arrived[0], p.arrived[1] = p.now[0][1:p.columns+1], p.now[p.rows+1][1:p.columns+1]
	for y := range p.rows {
		p.outgo[2][y], p.outgo[3][y] = p.now[y+1][1], p.now[y+1][p.columns]
	}
	check(collective.Exchange(ctx, grid, p.outgo, p.arrived, 0))
	for y := range p.rows {
		p.now[y+1][0], p.now[y+1][p.columns+1] = p.arrived[2][y], p.arrived[3][y]
	}
}

// step computes the next value of all points of the part, and returns the largest change.
func (p *part) step() (change float64) {
	for y := 1; y <= p.rows; y++ {
		above, here, below, next := p.now[y-1], p.now[y], p.now[y+1], p.next[y]
		for x := 1; x <= p.columns; x++ {
			next[x] = (above[x] + below[x] + here[x-1] + here[x+1]) / 4
			change = max(change, math.Abs(next[x]-here[x]))
		}
	}
	p.now, p.next = p.next, p.now
	return change
}

// compare returns the largest difference to the exact solution,
// sin(pi x) sinh(pi y) / sinh(pi), and a checksum of the part: it combines the bits of all
// temperatures, each multiplied by a number of its point, so that their order does not matter.
func (p *part) compare() (worst float64, checksum uint64) {
	side := float64(p.n + 1)
	for row, points := range p.now[1 : p.rows+1] {
		for column, v := range points[1 : p.columns+1] {
			y, x := p.top+row, p.left+column
			exact := math.Sin(math.Pi*float64(x)/side) * math.Sinh(math.Pi*float64(y)/side) / math.Sinh(math.Pi)
			worst = max(worst, math.Abs(v-exact))
			checksum ^= math.Float64bits(v) * uint64(2*(y*p.n+x)+1)
		}
	}
	return worst, checksum
}
