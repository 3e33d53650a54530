package tree

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Greedy returns a balanced reduce tree of a large total rate with the given
// root, for any number of ranks. It is a heuristic: it matches ranks over the
// heaviest links round by round, one of each pair going on to the next round,
// several times with shaken weights, and then exchanges ranks of the best tree
// while that makes it heavier. On random complete graphs it comes within some
// percent of Exact.
//
// On sparse graphs it may miss balanced trees that exist. A tree made from the
// root downwards, which may take more rounds, comes in their place, and its
// Note says so.
func Greedy(g *topo.Graph, root int) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	w := newNet(g)
	return greedy(w, root, matchings(w, 1)), nil
}

// attempts is the number of matchings tried for n ranks.
func attempts(n int) int {
	switch {
	case n <= 256:
		return 16
	case n <= maxMatrix:
		return 4
	}
	return 2
}

// matchWork bounds the links that are matched for all trees of one call: about
// two seconds.
const matchWork = 20_000_000

// matchings is the number of matchings tried for each of so many trees.
func matchings(g *net, trees int) int {
	ends := 0
	for _, list := range g.near {
		ends += len(list)
	}
	return min(attempts(g.n), matchWork/(1+ends/2*trees))
}

// greedy tries so many matchings; with none the tree is made downwards.
func greedy(g *net, root, matchings int) topo.Tree {
	if matchings == 0 {
		return downwards(g, root)
	}
	var best topo.Tree
	bestWeight := none
	s := newShaker(g, root)
	for i := range matchings {
		t, ok := s.match(i)
		if !ok {
			continue
		}
		if w := g.weight(t); w > bestWeight {
			best, bestWeight = t, w
		}
	}
	if bestWeight > none {
		exchange(g, best)
		return best
	}
	return downwards(g, root)
}

// pair is a link as the matching sees it.
type pair struct {
	a, b int // a < b
	rate float64
	key  float64 // the rate, shaken
}

// shaker makes matchings over one net with different weights.
type shaker struct {
	g        *net
	root     int
	pairs    []pair
	distance []int // links to the root
}

func newShaker(g *net, root int) *shaker {
	s := &shaker{g: g, root: root, pairs: g.byRate()}
	_, s.distance = shallowest(g, root)
	return s
}

// match makes one tree from the leaves to the root, and reports whether it is
// balanced. Attempts 0 and 1 use the rates as they are; later ones shake them
// by up to a half. Even attempts keep the rank with the heavier links to ranks
// that are still there, odd ones the rank nearer to the root.
func (s *shaker) match(attempt int) (topo.Tree, bool) {
	random := rand.New(rand.NewPCG(1, uint64(attempt)))
	for i := range s.pairs {
		s.pairs[i].key = s.pairs[i].rate
		if attempt > 1 {
			s.pairs[i].key *= 1 - random.Float64()/2
		}
	}
	slices.SortFunc(s.pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(y.key, x.key), x.a-y.a, x.b-y.b)
	})
	n := s.g.n
	t := topo.Tree{Root: s.root, Parent: make([]int, n), Round: make([]int, n)}
	gone := make([]bool, n)
	left := n
	pairs := slices.Clone(s.pairs)
	for round := 1; round <= topo.Rounds(n); round++ {
		left -= s.round(t, round, pairs, gone, attempt%2 == 1)
		pairs = slices.DeleteFunc(pairs, func(p pair) bool { return gone[p.a] || gone[p.b] })
	}
	t.Parent[s.root] = -1
	return t, left == 1
}

// round matches the ranks that are not gone along pairs, heaviest first, and
// returns how many of them send and are gone.
func (s *shaker) round(t topo.Tree, round int, pairs []pair, gone []bool, nearer bool) int {
	strength := make([]float64, s.g.n)
	for _, p := range pairs {
		strength[p.a] += p.key
		strength[p.b] += p.key
	}
	busy := make([]bool, s.g.n)
	sent := 0
	for _, p := range pairs {
		if busy[p.a] || busy[p.b] {
			continue
		}
		stay, leave := p.a, p.b
		if leave == s.root || stay != s.root && s.prefers(leave, stay, strength, nearer) {
			stay, leave = leave, stay
		}
		busy[stay], busy[leave], gone[leave] = true, true, true
		t.Parent[leave], t.Round[leave] = stay, round
		sent++
	}
	return sent
}

// prefers reports whether u rather than v should go on to the next round.
func (s *shaker) prefers(u, v int, strength []float64, nearer bool) bool {
	if nearer && s.distance[u] != s.distance[v] {
		return s.distance[u] < s.distance[v]
	}
	return strength[u] > strength[v]
}
