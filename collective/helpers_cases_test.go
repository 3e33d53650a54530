package collective

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// TREERUN_HARNESS=full makes TestHarness try every combination, which takes some
// ten minutes. A number multiplies how many it draws instead.

var kinds = []plan.Kind{
	plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter, plan.Scan, plan.ExScan,
}

var operations = []Op{Sum, Prod, Min, Max, Avg}

// opsOf returns the operations of a kind that reduces.
func opsOf(kind plan.Kind) []Op {
	if kind.Scans() {
		return operations[:4] // no Avg
	}
	return operations
}

// typed makes trials of one element type.
type typed func(c *Comm, cl call) trial

var elementTypes = []typed{
	int8s.try, uint8s.try, int32s.try, uint32s.try, int64s.try, uint64s.try,
	float16s.try, bfloat16s.try, float32s.try, float64s.try, complex64s.try, complex128s.try,
	int16s.try, uint16s.try, // not on devices
}

const deviceTypes = 12 // of elementTypes

// slotSizes are the links that calls are tried on. A message of some hundreds of bytes wraps around the smallest many
// times; in the largest, four chunks of a message fit. 0: the default of New.
var slotSizes = []struct{ slots, bytes int }{{2, 64}, {4, 1024}, {8, 32 << 10}, {0, 0}}

const large = 100003

var counts = []int{0, 1, 7, 1000, large}

// testCase is a call with an element type.
type testCase struct {
	call
	typed
}

// casesFor returns every call that runs by algorithm s, from or to any root.
func casesFor(s string, size int) []testCase {
	g := topo.UniformGraph(size)
	var all []testCase
	for _, kind := range kinds {
		if !fits(s, kind, g) {
			continue
		}
		for _, base := range variants(kind) {
			for i, n := range counts {
				for j, typed := range elementTypes {
					cl := base
					cl.count = n
					if kind.HasRoot() {
						cl.root = (i + j + int(base.op)) % size
					}
					all = append(all, testCase{cl, typed})
				}
			}
		}
	}
	return all
}

// variants returns the calls of a kind that differ in other things than count,
// root and type.
func variants(kind plan.Kind) []call {
	if kind == plan.Barrier {
		return []call{{kind: kind}}
	}
	var all []call
	for _, inPlace := range []bool{false, true} {
		if !reduces(kind) {
			all = append(all, call{kind: kind, inPlace: inPlace})
			continue
		}
		for _, op := range opsOf(kind) {
			all = append(all, call{kind: kind, op: op, inPlace: inPlace})
		}
		if !kind.Scans() {
			all = append(all, call{kind: kind, op: Sum, premul: true, inPlace: inPlace})
		}
	}
	return all
}

// draw selects some of the cases, few of them large, unless all are wanted.
func draw(t *testing.T, all []testCase, rng *rand.Rand) []testCase {
	few, fewLarge := testutil.Count(20, 100), testutil.Count(1, 4)
	if testutil.Race {
		few, fewLarge = 6, 0
	}
	switch s := os.Getenv("TREERUN_HARNESS"); s {
	case "":
	case "full":
		return all
	default:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || n <= 0 {
			t.Fatalf("TREERUN_HARNESS=%q is neither a number nor \"full\"", s)
		}
		few, fewLarge = int(float64(few)*n), int(float64(fewLarge)*n)
	}
	return drawn(all, few, fewLarge, rng)
}

// drawn selects few of the cases, and fewLarge of the large ones.
func drawn(all []testCase, few, fewLarge int, rng *rand.Rand) []testCase {
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.DeleteFunc(all, func(tc testCase) bool {
		left := &few
		if tc.count == large {
			left = &fewLarge
		}
		*left--
		return *left < 0
	})
}

// everyComm runs body on communicators of 1 to 9 ranks with every algorithm
// and size of slots: for each number of ranks another size of slots, or all. rng
// is drawn for the body alone; one rank at a time may use it.
func everyComm(t *testing.T, sizes []int, body func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option)) {
	testutil.OneProcessor(t)
	for _, size := range sizes {
		for k, s := range localAlgorithms {
			for i, slot := range slotSizes {
				one := k >= firstAlgorithms || !testutil.Thorough()
				if one && i != (k+size)%len(slotSizes) {
					continue
				}
				t.Run(fmt.Sprintf("ranks=%d/%v/slots=%dx%d", size, s, slot.slots, slot.bytes), func(t *testing.T) {
					opts := []Option{WithGraph(topo.UniformGraph(size)), WithAlgorithm(s)}
					if slot.slots > 0 {
						opts = append(opts, WithSlots(slot.slots, slot.bytes))
					}
					body(t, size, s, rand.New(rand.NewPCG(uint64(size), seedOf(s)+uint64(i))), opts...)
				})
			}
		}
	}
}

func harnessSizes() []int {
	switch {
	case testutil.Race:
		return []int{1, 2, 3, 6}
	case !testutil.Thorough():
		return []int{1, 2, 3, 5, 8, 9}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
}
