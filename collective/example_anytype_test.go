package collective_test

import (
	"fmt"

	"github.com/treerun/treerun/collective"
)

// Calls that move data take elements of any type without pointers.
func ExampleAllGather_anyType() {
	type particle struct {
		ID int32
		At [3]float64
	}
	onRanks(2, func(c *collective.Comm) error {
		all := make([]particle, 2)
		err := collective.AllGather(ctx, c, []particle{{ID: int32(c.Rank()), At: [3]float64{1, 2, 3}}}, all)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [{0 [1 2 3]} {1 [1 2 3]}]
}

// Every rank has its own state; the loop ends when all ranks are done.
func ExampleAllReduceValue_logical() {
	onRanks(3, func(c *collective.Comm) error {
		for step := 1; ; step++ {
			done, err := collective.AllReduceValue(ctx, c, step > c.Rank(), collective.LogicalAnd)
			if err != nil || done {
				if c.Rank() == 0 {
					fmt.Println(step, "steps")
				}
				return err
			}
		}
	})
	// Output: 3 steps
}

// Rank 0 gives out tasks, and takes results of any length from any rank.
func ExampleRecvNew() {
	onRanks(3, func(c *collective.Comm) error {
		if c.Rank() > 0 {
			return collective.Send(ctx, c, make([]float64, 10*c.Rank()), 0, 1)
		}
		total := 0
		for range c.Size() - 1 {
			result, _, err := collective.RecvNew[float64](ctx, c, collective.AnySource, 1)
			if err != nil {
				return err
			}
			total += len(result)
		}
		fmt.Println(total, "numbers")
		return nil
	})
	// Output: 30 numbers
}

type task struct {
	Name  string
	Limit map[string]int
}

func ExampleSendObject() {
	onRanks(2, func(c *collective.Comm) error {
		if c.Rank() == 1 {
			return collective.SendObject(ctx, c, task{"render", map[string]int{"frames": 24}}, 0, 1)
		}
		got, st, err := collective.RecvObject[task](ctx, c, collective.AnySource, 1)
		if err == nil {
			fmt.Println(got.Name, got.Limit["frames"], "from rank", st.Source)
		}
		return err
	})
	// Output: render 24 from rank 1
}

func ExampleScatterObject() {
	onRanks(2, func(c *collective.Comm) error {
		var tasks []task // used on root only
		if c.Rank() == 0 {
			tasks = []task{{Name: "read"}, {Name: "write"}}
		}
		mine, err := collective.ScatterObject(ctx, c, tasks, 0)
		if c.Rank() == 1 {
			fmt.Println(mine.Name)
		}
		return err
	})
	// Output: write
}

// The longest name.
func ExampleAllReduceValueFunc() {
	onRanks(3, func(c *collective.Comm) error {
		var name [8]byte
		copy(name[:], []string{"ab", "abcd", "abc"}[c.Rank()])
		longest, err := collective.AllReduceValueFunc(ctx, c, name, func(a, b [8]byte) [8]byte { return max8(a, b) })
		if c.Rank() == 0 {
			fmt.Printf("%.4s\n", longest[:])
		}
		return err
	})
	// Output: abcd
}

func max8(a, b [8]byte) [8]byte {
	for i := range a {
		if (a[i] == 0) != (b[i] == 0) {
			if a[i] == 0 {
				return b
			}
			return a
		}
	}
	return a
}

// Ranks in a row pass on a number to the next; the ones at the ends make the same calls.
func ExampleSendRecv_noRank() {
	onRanks(3, func(c *collective.Comm) error {
		left, right := c.Rank()-1, c.Rank()+1
		if left < 0 {
			left = collective.NoRank
		}
		if right == c.Size() {
			right = collective.NoRank
		}
		from := []int{-1}
		_, err := collective.SendRecv(ctx, c, []int{c.Rank()}, right, from, left, 0)
		if c.Rank() == 0 {
			fmt.Println(from[0])
		}
		return err
	})
	// Output: -1
}

// Ranks in a ring of two dimensions exchange their borders with all four neighbors.
func ExampleExchange() {
	onRanks(4, func(c *collective.Comm) error {
		g, err := collective.NewGrid(c, collective.Dims(c.Size(), 2), []bool{true, false})
		if err != nil {
			return err
		}
		var send, recv [][]int
		for range 4 { // lower and higher of the first dimension, and of the second
			send, recv = append(send, []int{c.Rank()}), append(recv, []int{-1})
		}
		err = collective.Exchange(ctx, g, send, recv, 0)
		if c.Rank() == 0 {
			fmt.Println(g.Coords(0), recv)
		}
		return err
	})
	// Output: [0 0] [[2] [2] [-1] [1]]
}

// Rank 0 gets the sum; the others go on.
func ExampleReduceValue() {
	onRanks(3, func(c *collective.Comm) error {
		sum, err := collective.ReduceValue(ctx, c, c.Rank()+1, collective.Sum, 0)
		if c.Rank() == 0 {
			fmt.Println(sum)
		}
		return err
	})
	// Output: 6
}

// Every rank passes on its number to the next one of a ring.
func ExampleGrid_Shift() {
	onRanks(3, func(c *collective.Comm) error {
		ring, err := collective.NewGrid(c, []int{c.Size()}, []bool{true})
		if err != nil {
			return err
		}
		lower, higher := ring.Shift(0, 1)
		from := []int{-1}
		_, err = collective.SendRecv(ctx, c, []int{c.Rank()}, higher, from, lower, 0)
		if c.Rank() == 0 {
			fmt.Println(from[0])
		}
		return err
	})
	// Output: 2
}
