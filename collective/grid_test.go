package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDims compares Dims with a search of all products.
func TestDims(t *testing.T) {
	for n := 1; n <= 64; n++ {
		for a := 1; a <= n; a++ {
			for b := 1; n%a == 0 && b <= n/a; b++ {
				if n/a%b != 0 {
					continue
				}
				c := n / a / b
				if got := Dims(n, 3); got[0]+got[1]+got[2] > a+b+c || got[0]*got[1]*got[2] != n ||
					got[0] < got[1] || got[1] < got[2] {
					t.Fatalf("Dims(%d, 3) = %v, and %d+%d+%d is less", n, got, a, b, c)
				}
			}
		}
	}
	for want, got := range map[string][]int{"[6]": Dims(6, 1), "[4 3]": Dims(12, 2), "[7 1]": Dims(7, 2),
		"[4 4 3 3]": Dims(144, 4), "[2 2 2 1 1]": Dims(8, 5)} {
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// Every rank gets the numbers of its neighbors, by their coordinates; also where one rank is a neighbor twice, or its
// own.
func TestGridExchange(t *testing.T) {
	ctx := t.Context()
	for _, dims := range [][]int{{1}, {2}, {3}, {2, 2}, {3, 2}, {2, 1, 3}, {1, 1}} {
		size := 1
		for _, d := range dims {
			size *= d
		}
		for periods := range 1 << len(dims) {
			periodic := make([]bool, len(dims))
			for d := range periodic {
				periodic[d] = periods>>d&1 == 1
			}
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				g, err := NewGrid(c, dims, periodic)
				if err != nil {
					return err
				}
				at := g.Coords(c.Rank())
				if g.Rank(at...) != c.Rank() {
					return fmt.Errorf("rank %d is at %v, and there is %d", c.Rank(), at, g.Rank(at...))
				}
				send, recv := make([][][3]byte, 2*len(dims)), make([][][3]byte, 2*len(dims))
				for i := range send {
					send[i], recv[i] = [][3]byte{{byte(c.Rank()), byte(i), 1}}, [][3]byte{{99}}
				}
				if err := Exchange(ctx, g, send, recv, 5); err != nil {
					return err
				}
				for i := range recv {
					near := slices.Clone(at)
					near[i/2] += 2*(i%2) - 1
					want := [3]byte{99}
					if outside := near[i/2] < 0 || near[i/2] >= dims[i/2]; !outside || periodic[i/2] {
						near[i/2] = (near[i/2] + dims[i/2]) % dims[i/2]
						r := 0
						for d := range dims {
							r = r*dims[d] + near[d]
						}
						want = [3]byte{byte(r), byte(i ^ 1), 1}
					}
					if recv[i][0] != want {
						return fmt.Errorf("%v, periodic %v, rank %d, slice %d: %v, want %v", dims, periodic, c.Rank(), i,
							recv[i][0], want)
					}
				}
				return nil
			})
		}
	}
}

// Wrong dimensions and slices are refused.
func TestGridArguments(t *testing.T) {
	ctx := t.Context()
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		for _, bad := range [][]int{{3}, {1}, {2, 0}, {-2, -1}, nil, {1 << 62, 2, 2}} {
			if _, err := NewGrid(c, bad, nil); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("dimensions %v: %w", bad, err)
			}
		}
		if _, err := NewGrid(c, []int{2}, []bool{true, false}); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("periods: %w", err)
		}
		g, err := NewGrid(c, []int{2}, nil)
		if err != nil {
			return err
		}
		if err := Exchange(ctx, g, [][]int{{1}}, [][]int{{1}, {1}}, 0); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("too few slices: %w", err)
		}
		x := [][]int{{1}, {1}}
		for _, tag := range []int{AnyTag, -1} {
			err := Exchange(ctx, g, x, [][]int{{0}, {0}}, tag)
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "Exchange on") {
				return fmt.Errorf("tag %d: %w", tag, err)
			}
		}
		if err := Exchange(ctx, nil, x, x, 0); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("no grid: %w", err)
		}
		return Exchange(ctx, g, x, [][]int{{0}, {0}}, 5) // nothing has begun before
	})
}

// Ends that give slices of different lengths get the same error, whichever message is too long.
func TestGridExchangeOfOtherLengths(t *testing.T) {
	for _, lengths := range [][2]int{{1, 2}, {2, 1}} {
		for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			g, err := NewGrid(c, []int{2}, nil)
			if err != nil {
				return err
			}
			n := lengths[c.Rank()]
			slices := func() [][]int { return [][]int{make([]int, n), make([]int, n)} }
			return errors.Join(Exchange(t.Context(), g, slices(), slices(), 0), Barrier(t.Context(), c))
		}) {
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "Exchange") {
				t.Errorf("lengths %v, rank %d: %v", lengths, r, err)
			} else {
				t.Log(err)
			}
		}
	}
}

// TestGridExchangeOverlap: slices that share memory are refused where one of them is received, and only where they have
// neighbors.
func TestGridExchangeOverlap(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		ring, err := NewGrid(c, []int{3}, []bool{true})
		if err != nil {
			return err
		}
		m := []int{10 * c.Rank(), 0, 0, 0, 0}
		for want, of := range map[string][2][][]int{
			"slice 1 of send and slice 0 of recv": {{m[:1], m[1:2]}, {m[1:2], m[2:3]}},
			"slice 0 of send and slice 1 of recv": {{m[:2], m[:2]}, {m[3:5], m[1:3]}},
			"slices 0 and 1 of recv":              {{m[:1], m[:1]}, {m[1:2], m[1:2]}},
		} {
			err := Exchange(t.Context(), ring, of[0], of[1], 0)
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want+" overlap") {
				return fmt.Errorf("%s: %w", want, err)
			}
		}
		line, err := NewGrid(c, []int{3}, nil)
		if err != nil {
			return err
		}
		lower, higher := []int{-1}, []int{-1}
		send, recv := [][]int{m[:1], m[:1]}, [][]int{lower, higher} // both neighbors get the same slice
		switch c.Rank() {
		case 0:
			send[0], recv[0] = higher, higher
		case 2:
			send[1], recv[1] = lower, lower
		}
		if err := Exchange(t.Context(), line, send, recv, 0); err != nil {
			return err
		}
		if r := c.Rank(); r > 0 && lower[0] != 10*(r-1) || r < 2 && higher[0] != 10*(r+1) {
			return fmt.Errorf("%v came from the lower neighbor, %v from the higher one", lower, higher)
		}
		return nil
	})
}
