package collective_test

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
)

// Each rank has a number of lines to write to one file, and the sum of the numbers of the ranks before it is its
// position. The lines are made while the Scan is in flight.
func ExampleStartScan() {
	onRanks(3, func(c *collective.Comm) error {
		lines, upTo := []int{10 + c.Rank()}, make([]int, 1)
		begun, err := collective.StartScan(c, lines, upTo, collective.Sum)
		if err != nil {
			return err
		}
		// The lines are made here.
		if err := begun.Wait(ctx); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Printf("rank 2 writes lines %d to %d\n", upTo[0]-lines[0], upTo[0]-1)
		}
		return nil
	})
	// Output: rank 2 writes lines 21 to 32
}

// The range of all values: the minimum and the maximum in one call, while the rank does other work.
func ExampleStartAllReduceFunc() {
	type span struct{ Low, High float64 }
	onRanks(3, func(c *collective.Comm) error {
		x := float64(c.Rank())
		mine, all := []span{{x - 1, 2 * x}}, make([]span, 1)
		begun, err := collective.StartAllReduceFunc(c, mine, all, func(into, from []span) {
			into[0] = span{min(into[0].Low, from[0].Low), max(into[0].High, from[0].High)}
		})
		if err != nil {
			return err
		}
		// Other work is done here. Now and then a Test makes progress on the call.
		if _, err := begun.Test(); err != nil {
			return err
		}
		if err := begun.Wait(ctx); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Println(all[0])
		}
		return nil
	})
	// Output: {-1 4}
}

// Parts of different lengths are exchanged repeatedly, with the same lengths each time.
func ExampleAllToAllVInit() {
	onRanks(2, func(c *collective.Comm) error {
		send, recv := make([]int, 3), make([]int, 2+2*c.Rank())
		p, err := collective.AllToAllVInit(c, send, []int{1, 2}, recv, []int{1 + c.Rank(), 1 + c.Rank()})
		if err != nil {
			return err
		}
		for step := range 2 {
			for i := range send {
				send[i] = 100*step + 10*c.Rank() + i
			}
			if err := p.Run(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 1 {
			fmt.Println(recv)
		}
		return nil
	})
	// Output: [101 102 111 112]
}

// Tokens are sent to the ranks of their experts, any number to each, while the next ones are made.
func ExampleStartAllToAllV() {
	onRanks(2, func(c *collective.Comm) error {
		tokens := [][]int{{1, 2, 3}, {4, 5, 6}}[c.Rank()]
		got := make([]int, 2+2*c.Rank())
		begun, err := collective.StartAllToAllV(c, tokens, []int{1, 2}, got, []int{1 + c.Rank(), 1 + c.Rank()})
		if err != nil {
			return err
		}
		// The next tokens are made here.
		if err := begun.Wait(ctx); err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(got)
		}
		return nil
	})
	// Output: [2 3 5 6]
}

// last is a function whose result depends on the order of the ranks: it keeps the last of the ranks' numbers that is
// not 0.
func last(into, from []int) {
	for i, v := range from {
		if v != 0 {
			into[i] = v
		}
	}
}

// Several calls with a function are in flight. They are done in the order in which they began.
func ExampleStartScanFunc() {
	onRanks(3, func(c *collective.Comm) error {
		mine := []int{c.Rank() % 2, c.Rank(), 5}
		upTo, before, all, part, sums := make([]int, 3), make([]int, 3), make([]int, 3), make([]int, 1), make([]int, 3)
		_, err1 := collective.StartScanFunc(c, mine, upTo, last)
		_, err2 := collective.StartExScanFunc(c, mine, before, last)
		_, err3 := collective.StartExScan(c, mine, sums, collective.Sum)
		_, err4 := collective.StartReduceScatterFunc(c, mine, part, last)
		end, err5 := collective.StartReduceFunc(c, mine, all, last, 2)
		if err := errors.Join(err1, err2, err3, err4, err5, end.Wait(ctx)); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Println(upTo, before, sums, part, all)
		}
		return nil
	})
	// Output: [1 2 5] [1 1 5] [1 1 10] [5] [1 2 5]
}

// Calls that are prepared once and run repeatedly, with the current contents of their slices.
func ExampleScanInit() {
	onRanks(3, func(c *collective.Comm) error {
		mine, upTo, before := make([]int, 1), make([]int, 1), make([]int, 1)
		scan, err1 := collective.ScanInit(c, mine, upTo, collective.Sum)
		exScan, err2 := collective.ExScanInit(c, mine, before, collective.Sum)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for step := range 2 {
			mine[0] = step + c.Rank()
			if err := errors.Join(scan.Run(ctx), exScan.Run(ctx)); err != nil {
				return err
			}
			if c.Rank() == 2 {
				fmt.Println(upTo[0], before[0])
			}
		}
		return nil
	})
	// Output:
	// 3 1
	// 6 3
}

// The same with functions.
func ExampleAllReduceFuncInit() {
	onRanks(3, func(c *collective.Comm) error {
		mine := []int{c.Rank() % 2, c.Rank(), 5}
		results := [5][]int{}
		for i := range results {
			results[i] = make([]int, 3)
		}
		all, err1 := collective.AllReduceFuncInit(c, mine, results[0], last)
		one, err2 := collective.ReduceFuncInit(c, mine, results[1], last, 2)
		upTo, err3 := collective.ScanFuncInit(c, mine, results[2], last)
		before, err4 := collective.ExScanFuncInit(c, mine, results[3], last)
		part, err5 := collective.ReduceScatterFuncInit(c, mine, results[4][:1], last)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return err
		}
		for _, p := range []*collective.Persistent{all, one, upTo, before, part} {
			if err := p.Run(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 2 {
			fmt.Println(results)
		}
		return nil
	})
	// Output: [[1 2 5] [1 2 5] [1 2 5] [1 1 5] [5 0 0]]
}
