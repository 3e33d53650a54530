package sim

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
)

// The compute rates of a GPU: round figures for a V100 and MXNet's engine in 2018, not measurements. The gradients of a
// layer cost twice its forward pass.
const (
	tflops     = 8    // multiplications and additions of float32
	halfTflops = 16   // of float16
	kernelUs   = 10   // for every tensor on the way forward, to begin its kernels
	arrayBound = 10e6 // floats: MXNet's default
)

// layer is one layer of a network: multiplications of one image on the way forward, and
// the floats of its tensors.
type layer struct {
	multiplies float64
	keys       []int64
}

var networkNames = []string{"resnet-50", "vgg-16", "inception-v3", "alexnet"}

// networks reads testdata/networks.txt.
func networks(t *testing.T) map[string][]layer {
	t.Helper()
	text, err := os.ReadFile("testdata/networks.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]layer)
	name := ""
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0][0] == '[':
			name = strings.Trim(words[0], "[]")
		default:
			var l layer
			for i, word := range words[1:] {
				n, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					l.multiplies = float64(n)
				} else {
					l.keys = append(l.keys, n)
				}
			}
			all[name] = append(all[name], l)
		}
	}
	return all
}

// TestNetworks holds the sums of the layers against the numbers of parameters that are
// published of the networks, ResNet-50's against the number of keys that the proposal
// gives.
func TestNetworks(t *testing.T) {
	all := networks(t)
	for name, want := range map[string][2]int64{"resnet-50": {157, 25_549_486}, "vgg-16": {32, 138_357_544},
		"inception-v3": {284, 23_834_568}, "alexnet": {16, 62_378_344}} {
		var got [2]int64
		for _, l := range all[name] {
			for _, k := range l.keys {
				got[0], got[1] = got[0]+1, got[1]+k
			}
		}
		if got != want {
			t.Errorf("%s has %d tensors of %d floats, want %v", name, got[0], got[1], want)
		}
	}
}

// networkTable returns a table of the keys that the networks push and pull.
func networkTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("network\tkeys\tfloats\tlargest key\tkeys above 2M\tkeys above 10M\tmultiplications\n")
	all := networks(t)
	for _, name := range networkNames {
		var keys, small, large int
		var floats, largest int64
		multiplies := 0.0
		for _, l := range all[name] {
			multiplies += l.multiplies
			for _, k := range l.keys {
				keys, floats, largest = keys+1, floats+k, max(largest, k)
				if k > 2<<20 {
					small++
				}
				if k > 10e6 {
					large++
				}
			}
		}
		fmt.Fprintf(&b, "%s\t%d\t%d\t%d\t%d\t%d\t%.0f\n", name, keys, floats, largest, small, large, multiplies)
	}
	return b.String()
}

// iteration is one step of training on a p3.16xlarge.
type iteration struct {
	batch int // images of a GPU; 0: nothing is computed, all gradients are there at once
	half  bool
	bound float64 // floats above which a key goes along eight trees
}

// passUs returns the time of a layer on the way forward.
func (it iteration) passUs(l layer) float64 {
	if it.batch == 0 {
		return 0
	}
	rate := float64(tflops)
	if it.half {
		rate = halfTflops
	}
	return 2*l.multiplies*float64(it.batch)/(rate*1e6) + kernelUs*float64(len(l.keys))
}

// computeUs returns the time of an iteration that pushes nothing.
func (it iteration) computeUs(layers []layer) float64 {
	us := 0.0
	for _, l := range layers {
		us += 3 * it.passUs(l)
	}
	return us
}

// us prices the iteration: the way forward, then back, where every layer's keys are pushed
// and pulled as soon as its gradient is there, until all are back. Communication takes
// nothing away from the GPUs' computing.
func (it iteration) us(t *testing.T, p *p3, layers []layer, name string) float64 {
	t.Helper()
	engine, machine := MXNet(1).IssueUs, MXNet(1)
	machine.LaunchUs = 0 // it stands in AtUs
	if name == "nccl ring" {
		machine = MXNetNCCL()
	}
	now := it.computeUs(layers) / 3
	issued := 0.0
	var ops []Operation
	server := p.balance(layers)
	for i, l := range slices.Backward(layers) {
		now += 2 * it.passUs(l)
		for k, floats := range l.keys {
			bytes := 4 * floats
			if it.half {
				bytes = 2 * floats
			}
			plans, steps := []*plan.Plan{p.reduce, p.hand}, 0
			switch {
			case name == "parameter server":
				plans, steps = []*plan.Plan{p.servers[server[[2]int{i, k}]]}, serverOps
			case name == "tree" && float64(floats) > it.bound:
				plans, steps = []*plan.Plan{p.trees}, multiTreeOps
			case name == "tree":
				plans, steps = []*plan.Plan{p.tree}, treeOps
			}
			issued = max(issued, now) + engine*float64(steps)
			for _, made := range plans {
				ops = append(ops, Operation{Plan: made, Bytes: bytes, AtUs: issued})
			}
		}
	}
	r, err := Run(ops, p.all, machine)
	if err != nil {
		t.Fatal(err)
	}
	return max(r.Us, now)
}

// balance gives every key, by layer and place, to the GPU that has least, the largest key
// first, as MXNet does.
func (p *p3) balance(layers []layer) map[[2]int]int {
	var keys [][2]int
	for i, l := range layers {
		for k := range l.keys {
			keys = append(keys, [2]int{i, k})
		}
	}
	size := func(key [2]int) int64 { return layers[key[0]].keys[key[1]] }
	slices.SortStableFunc(keys, func(a, b [2]int) int { return cmp.Compare(size(b), size(a)) })
	load := make([]int64, len(p.servers))
	server := make(map[[2]int]int)
	for _, key := range keys {
		least := slices.Index(load, slices.Min(load))
		server[key] = least
		load[least] += size(key)
	}
	return server
}

// training prices an iteration of a network over the images of a GPU, in every way.
func training(name string, half bool) func(*testing.T) string {
	return func(t *testing.T) string {
		p, layers := newP3(t), networks(t)[name]
		var b strings.Builder
		b.WriteString("images of a GPU\tcomputing\ttree\tnccl ring\tparameter server\n")
		for _, batch := range []int{2, 4, 8, 16, 32, 64} {
			it := iteration{batch: batch, half: half, bound: arrayBound}
			fmt.Fprintf(&b, "%d\t%.6g", batch, it.computeUs(layers)/1e3)
			for _, way := range []string{"tree", "nccl ring", "parameter server"} {
				fmt.Fprintf(&b, "\t%.6g", it.us(t, p, layers, way)/1e3)
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
}

// boundSweep prices an iteration of VGG-16 with four images of a GPU, and its push-pulls
// alone, over the bound above which keys go along eight trees.
func boundSweep(t *testing.T) string {
	p, layers := newP3(t), networks(t)["vgg-16"]
	var b strings.Builder
	b.WriteString("bound\tVGG-16, iteration\tits push-pulls alone\n")
	for _, bound := range []float64{1e4, 1e5, 1e6, 3e6, 1e7, 3e7, 1e8, 1e9} {
		whole, alone := iteration{batch: 4, bound: bound}, iteration{bound: bound}
		fmt.Fprintf(&b, "%.0f\t%.6g\t%.6g\n", bound, whole.us(t, p, layers, "tree")/1e3, alone.us(t, p, layers,
			"tree")/1e3)
	}
	return b.String()
}
