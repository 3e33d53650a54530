package sparse

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
)

// filled tells whether a block of a rank is not zero.
type filled func(rank, b int) bool

// protocol says what OmniReduce's Algorithm 1 sends for such tensors, over links: how
// many packets all workers send to aggregators on other ranks, and how many results
// these send. Every stream goes on in rounds, in each of which a block of every column
// that has not ended is reduced: the first one, and then those that any worker has.
// In the first round all workers send, later those that have one of the blocks.
func protocol(ranks, aggregators, streams, columns, blocks int, has filled) (packets, results int) {
	for s := range streams {
		var rounds [][]int // blocks of each
		for c := s * columns; c < (s+1)*columns && c < blocks; c++ {
			k := 0
			for b := c; b < blocks; b += streams * columns {
				any := b == c
				for v := range ranks {
					any = any || has(v, b)
				}
				if !any {
					continue
				}
				if k == len(rounds) {
					rounds = append(rounds, nil)
				}
				rounds[k] = append(rounds[k], b)
				k++
			}
		}
		aggregator := s % aggregators
		for k, round := range rounds {
			results += ranks - 1
			for v := range ranks {
				sends := k == 0
				for _, b := range round {
					sends = sends || has(v, b)
				}
				if sends && v != aggregator {
					packets++
				}
			}
		}
	}
	return packets, results
}

// The ranks send as many messages as the protocol says: with fewer blocks than streams,
// and more, and columns that divide them or not, and end early.
func TestMessagesAreThoseOfTheProtocol(t *testing.T) {
	sets := map[string]filled{
		"none":         func(int, int) bool { return false },
		"all":          func(int, int) bool { return true },
		"the last one": func(v, b int) bool { return v == 1 && b%50 == 49 },
		"some":         func(v, b int) bool { return (b*7+v*3)%5 == 0 },
		"own ones":     func(v, b int) bool { return b%3 == v },
		"early ends":   func(v, b int) bool { return b < 10 || b%8 == 1 },
	}
	names := slices.Sorted(maps.Keys(sets)) // the same order on all ranks
	for _, ranks := range []int{2, 3, 5} {
		mustRun(t, oneHost(ranks), func(_ *world, c *collective.Comm) error {
			const size = 8
			for _, name := range names {
				has := sets[name]
				for _, shape := range []struct{ streams, columns, blocks int }{{1, 1, 60}, {2, 3, 100}, {8, 1, 3}, {64, 2, 50},
					{3, 7, 1}, {1, 16, 90}} {
					x := make([]int32, shape.blocks*size)
					for b := range shape.blocks {
						if has(c.Rank(), b) {
							x[b*size+b%size] = int32(1 + b)
						}
					}
					s, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Aggregators), BlockSize(size),
						Streams(shape.streams), Columns(shape.columns))
					if err != nil {
						return err
					}
					for b := range shape.blocks {
						want := int32(0)
						for v := range ranks {
							if has(v, b) {
								want += int32(1 + b)
							}
						}
						if x[b*size+b%size] != want {
							return fmt.Errorf("%s, %+v: block %d has %d, want %d", name, shape, b, x[b*size+b%size], want)
						}
					}
					counted := []int64{s.SentMessages, s.ReceivedMessages}
					if err := collective.AllReduce(t.Context(), c, counted, counted, collective.Sum); err != nil {
						return err
					}
					packets, results := protocol(ranks, ranks, shape.streams*ranks, shape.columns, shape.blocks, has)
					if want := int64(packets + results); counted[0] != want || counted[1] != want {
						return fmt.Errorf("%s, %+v: %d messages sent and %d received, want %d packets and %d results", name, shape,
							counted[0], counted[1], packets, results)
					}
				}
			}
			return nil
		})
	}
}
