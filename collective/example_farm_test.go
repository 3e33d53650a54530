package collective_test

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective"
)

const end, block = 20_000, 500

// primes returns the primes from lo on that are below hi.
func primes(lo, hi int) (found []int) {
	for n := max(lo, 2); n < hi; n++ {
		d := 2
		for d*d <= n && n%d > 0 {
			d++
		}
		if d*d > n {
			found = append(found, n)
		}
	}
	return found
}

// farm returns all primes below end on rank 0, which gives each block to the rank that is free first. Results differ in
// length. A rank without a block left gets end.
func farm(c *collective.Comm) (found []int, err error) {
	if c.Size() == 1 {
		return primes(0, end), nil
	}
	lo := []int{0}
	for c.Rank() > 0 {
		if _, err := collective.SendRecv(ctx, c, found, 0, lo, 0, 0); err != nil || lo[0] == end {
			return nil, err
		}
		found = primes(lo[0], lo[0]+block)
	}
	for range end/block + c.Size() - 1 { // the result of each block and, at first, an empty one of each rank
		result, st, err := collective.RecvNew[int](ctx, c, collective.AnySource, 0)
		if err == nil {
			err = collective.Send(ctx, c, lo, st.Source, 0)
		}
		if err != nil {
			return nil, err
		}
		found, lo[0] = append(found, result...), min(lo[0]+block, end)
	}
	slices.Sort(found)
	return found, nil
}

// A task farm, in which rank 0 gives out tasks as ranks become free. With mpi4py, whose messages are any objects, the
// function farm has 17 lines; here it has 24.
func Example_farm() {
	onRanks(4, func(c *collective.Comm) error {
		found, err := farm(c)
		if c.Rank() == 0 {
			fmt.Println(len(found), "primes, the last is", found[len(found)-1])
		}
		return err
	})
	// Output: 2262 primes, the last is 19997
}
