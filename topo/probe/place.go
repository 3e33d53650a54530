package probe

import (
	"iter"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/internal/numbers"
)

// levels are the levels that cores may share, from near to far: files of the system that list the cores.
var levels = [...]string{cpu.Siblings, cpu.L3, cpu.Socket}

// Place is the place where a rank runs, as far as it is bound.
type Place struct {
	Bound bool                `json:"bound"` // to one core
	Share [len(levels)]string `json:"share"` // the cores that share a level with its own; "": with several, or unknown
}

// Here returns the place of the calling thread.
func Here() (p Place) {
	cores, _ := cpu.Allowed() // none where they are not known
	p.Bound = len(cores) == 1
	for i, file := range levels {
		for k, core := range cores {
			text := cpu.Read(os.DirFS("/"), core, file)
			if k > 0 && text != p.Share[i] {
				text = ""
			}
			if p.Share[i] = text; text == "" {
				break
			}
		}
	}
	return p
}

// Sampling selects the pairs of the ranks of a host that are measured, and the other pairs for which each stands. Pairs
// of a class are equal in the machine: their places have the same relation.
type Sampling struct {
	kinds   []int   // by rank: the index of its own among the different places
	classes [][]int // by two of those: the class of their pairs
	sizes   []int   // by class: its pairs
}

// relation is the levels that the places of two ranks share: a class of pairs.
type relation struct {
	bound int
	level [len(levels)]byte
}

func relate(p, q *Place) (r relation) {
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
	return r
}

// NewSampling deals the pairs of ranks at these places to classes.
func NewSampling(places []Place) *Sampling {
	s := &Sampling{}
	var differ []Place
	at, known := make(map[Place]int), make(map[relation]int)
	for _, p := range places {
		if _, seen := at[p]; !seen {
			at[p] = len(differ)
			differ = append(differ, p)
		}
		s.kinds = append(s.kinds, at[p])
	}
	s.classes = make([][]int, len(differ))
	for i := range differ {
		for j := range differ {
			r := relate(&differ[i], &differ[j])
			if _, seen := known[r]; !seen {
				known[r] = len(known)
			}
			s.classes[i] = append(s.classes[i], known[r])
		}
	}
	s.sizes = make([]int, len(known))
	for _, class := range s.each {
		s.sizes[class]++
	}
	return s
}

// samples is the number of pairs of a class that are measured.
const samples = 8

// Pairs returns the pairs to measure: some of every class, without a pattern, which the machine may have, too.
func (s *Sampling) Pairs() (pairs [][2]int) {
	random := rand.New(rand.NewPCG(0, 0))
	left, taken := slices.Clone(s.sizes), make([]int, len(s.sizes))
	for p, class := range s.each { // each with the same chance
		if random.IntN(left[class]) < min(samples, s.sizes[class])-taken[class] {
			pairs = append(pairs, p)
			taken[class]++
		}
		left[class]--
	}
	return pairs
}

// each visits all pairs, sorted, and their classes.
func (s *Sampling) each(yield func(p [2]int, class int) bool) {
	for a, kind := range s.kinds {
		of := s.classes[kind]
		for b := a + 1; b < len(s.kinds); b++ {
			if !yield([2]int{a, b}, of[s.kinds[b]]) {
				return
			}
		}
	}
}

// Fill returns the pairs of all classes, sorted, each with the medians of the measurements of its class.
func (s *Sampling) Fill(measured []Pair) iter.Seq[Pair] {
	medians := s.medians(measured)
	return func(yield func(Pair) bool) {
		for pair, class := range s.each {
			p := medians[class]
			p.A, p.B = pair[0], pair[1]
			if !yield(p) {
				return
			}
		}
	}
}

// medians returns the medians of the measurements of every class.
func (s *Sampling) medians(measured []Pair) []Pair {
	latencies, rates := make([][]float64, len(s.sizes)), make([][]float64, len(s.sizes))
	for _, p := range measured {
		if p.A < 0 || p.A >= p.B || p.B >= len(s.kinds) {
			continue
		}
		class := s.classes[s.kinds[p.A]][s.kinds[p.B]]
		latencies[class], rates[class] = append(latencies[class], p.LatencyUs), append(rates[class], p.GBytesPerSecond)
	}
	medians := make([]Pair, len(s.sizes))
	for class := range medians {
		medians[class] = Pair{LatencyUs: numbers.Median(latencies[class]), GBytesPerSecond: numbers.Median(rates[class])}
	}
	return medians
}
