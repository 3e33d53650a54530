package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// levels are what cores may share, from near to far: files of the system that list them.
var levels = [...]string{"topology/thread_siblings_list", "cache/index3/shared_cpu_list", "topology/core_siblings_list"}

// Place says where a rank runs, as far as it is bound.
type Place struct {
	Bound bool                // to one core
	Share [len(levels)]string // the cores that share a level with its own; "": with several, or it is not known
}

// Here returns the place of the calling process.
func Here() (p Place) {
	status, _ := os.ReadFile("/proc/thread-self/status")
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	list = strings.TrimSpace(list)
	p.Bound = list != "" && !strings.ContainsAny(list, ",-")
	for i, file := range levels {
		p.Share[i] = sharing(list, file)
	}
	return p
}

// sharing returns what the system says in a file of every core of a list as "0-3,8", "" where it
// does not say the same of all.
func sharing(list, file string) string {
	same := ""
	for part := range strings.SplitSeq(list, ",") {
		low, high, several := strings.Cut(part, "-")
		if !several {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, wrong := strconv.Atoi(high)
		if errors.Join(err, wrong) != nil {
			return ""
		}
		for cpu := first; cpu <= last; cpu++ {
			text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/%s", cpu, file))
			if err != nil || same != "" && string(text) != same {
				return ""
			}
			same = string(text)
		}
	}
	return same
}

// class is a set of pairs of ranks that the machine makes alike: their places have the same
// in common.
type class [][2]int

// Sampling says which pairs of the ranks of a host are measured, and for which others they stand.
type Sampling []class

// NewSampling deals the pairs of ranks at these places to classes.
func NewSampling(places []Place) Sampling {
	type relation struct {
		bound int
		level [len(levels)]byte
	}
	at := make(map[relation]int)
	var s Sampling
	for b := range places {
		for a := range b {
			p, q := &places[a], &places[b]
			var r relation
			for _, place := range []*Place{p, q} {
				if place.Bound {
					r.bound++
				}
			}
			for i := range levels {
				switch {
				case p.Share[i] == "" || q.Share[i] == "":
				case p.Share[i] == q.Share[i]:
					r.level[i] = 1
				default:
					r.level[i] = 2
				}
			}
			i, known := at[r]
			if !known {
				i = len(s)
				at[r], s = i, append(s, nil)
			}
			s[i] = append(s[i], [2]int{a, b})
		}
	}
	return s
}

// samples is how many pairs of a class are measured.
const samples = 8

// Pairs returns those to measure: some of every class, without a pattern, which the machine
// may have, too.
func (s Sampling) Pairs() (pairs [][2]int) {
	random := rand.New(rand.NewPCG(0, 0))
	for _, c := range s {
		for _, i := range random.Perm(len(c))[:min(samples, len(c))] {
			pairs = append(pairs, c[i])
		}
	}
	return pairs
}

// Fill returns the pairs of all classes, each with the medians of what was measured of its class.
func (s Sampling) Fill(measured []Pair) (all []Pair) {
	of := make(map[[2]int]Pair)
	for _, p := range measured {
		of[[2]int{p.A, p.B}] = p
	}
	for _, c := range s {
		var latencies, rates []float64
		for _, ranks := range c {
			if p, ok := of[ranks]; ok {
				latencies, rates = append(latencies, p.LatencyUs), append(rates, p.GBytesPerSecond)
			}
		}
		latency, rate := numbers.Median(latencies), numbers.Median(rates)
		for _, p := range c {
			all = append(all, Pair{A: p[0], B: p[1], LatencyUs: latency, GBytesPerSecond: rate})
		}
	}
	slices.SortFunc(all, func(p, q Pair) int { return cmp.Or(p.A-q.A, p.B-q.B) })
	return all
}
