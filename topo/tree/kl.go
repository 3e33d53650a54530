package tree

import (
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// maxKL is the number of ranks up to which KL bisects; above, trees are binomial.
const maxKL = 1 << 10

// maxFresh is the number of ranks up to which every tree of KL bisects again, with the rates as earlier trees left
// them. Above, all trees are made from the same bisections.
const maxFresh = 64

// klAttempts is the number of bisections that KL tries; above maxFresh ranks it tries
// fewer.
const klAttempts = 12

// KL returns one balanced reduce tree per root, tree r with root r, by the method of
// MXNet's single-machine AllReduce, for messages that are cut into as many parts: the
// ranks are halved again and again along
// the lightest cut (Kernighan and Lin, "An efficient heuristic procedure for
// partitioning graphs", 1970), and the root of each half that has one takes in
// the other half over its heaviest link that crosses the cut. So the light
// links carry few of the tree's edges and the heavy ones many.
//
// After every tree the rate of each of its links
// is multiplied by penalty, 0 to 1, for the trees that come later: 1 lets all
// of them use the heaviest links, LinkUsagePenalty is MXNet's default. seed is of the
// random halves and of the choice between equal links: the same seed gives the same trees.
//
// It differs from MXNet's code where that fails. Halving continues down to single ranks, so every number of ranks
// works; every edge is a link of g; a pass of exchanges climbs over bad ones and keeps the best prefix, as the paper
// does. Several bisections are tried, and exchanges of two ranks improve their trees; the heaviest counts. When none of
// them finds a balanced tree, the exact search up to MaxExact ranks, or else a binomial tree comes in its place, with
// other links for those that g does not have; its Note reports that.
func KL(g *topo.Graph, penalty float64, seed uint64) []topo.Tree {
	w := newNet(g)
	return w.inTurn(penalty, newKL(w, seed, klAttempts).tree)
}

// kl makes trees over one net, whose rates may change between them.
type kl struct {
	g        *net
	seed     uint64
	attempts int
	shared   []*cluster // bisections for all trees; nil up to maxFresh ranks
}

// newKL makes the bisections that all trees share.
func newKL(g *net, seed uint64, attempts int) *kl {
	k := &kl{g: g, seed: seed, attempts: attempts}
	switch {
	case g.n > maxKL:
		k.attempts = 0
	case g.n > maxFresh:
		k.attempts = min(attempts, 3)
	}
	for i := range k.attempts {
		if g.n > maxFresh {
			k.shared = append(k.shared, k.bisect(i, rand.New(rand.NewPCG(seed, uint64(i)))))
		}
	}
	return k
}

// tree returns the heaviest tree of all attempts, or its substitute.
func (k *kl) tree(root int) topo.Tree {
	t, ok := k.attempt(root)
	switch {
	case ok:
		return t
	case k.g.n <= MaxExact:
		return newExact(k.g).tree(root)
	}
	return mend(k.g, exchange(k.g, Binomial(k.g.n, root)))
}

// attempt returns the heaviest balanced tree of all attempts.
func (k *kl) attempt(root int) (best topo.Tree, ok bool) {
	bestWeight := none
	for i := range k.attempts {
		random := rand.New(rand.NewPCG(k.seed, uint64(root)<<32|uint64(i)))
		t := topo.Tree{Root: root, Parent: make([]int, k.g.n), Round: make([]int, k.g.n)}
		t.Parent[root] = -1
		var c *cluster
		if k.shared != nil {
			c = k.shared[i]
		} else {
			c = k.bisect(i, random)
		}
		if !k.grow(t, c, root, topo.Rounds(k.g.n), random) {
			continue
		}
		if k.shared == nil {
			t = exchange(k.g, t)
		}
		if w := k.g.weight(t); w > bestWeight {
			best, bestWeight = t, w
		}
	}
	if k.shared != nil && bestWeight > none {
		best = exchange(k.g, best)
	}
	return best, bestWeight > none
}

// bisect halves all ranks down to single ones. The first attempt starts from
// the order of the ranks, later ones from random orders.
func (k *kl) bisect(attempt int, random *rand.Rand) *cluster {
	ranks := numbers.Below(k.g.n)
	if attempt > 0 {
		random.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
	}
	return halve(k.g, ranks)
}

// grow hangs the ranks of c below root, which is one of them, in the given number of rounds. It fails when root has no
// link into the other half of a cluster.
func (k *kl) grow(t topo.Tree, c *cluster, root, rounds int, random *rand.Rand) bool {
	if len(c.ranks) == 1 {
		return true
	}
	near, far := c.halves[0], c.halves[1]
	if slices.Contains(far.ranks, root) {
		near, far = far, near
	}
	u, best, equal := -1, 0.0, 0 // the other end of root's heaviest link, any of them among equals
	for _, v := range far.ranks {
		switch rate := k.g.at(root, v); {
		case rate > best:
			u, best, equal = v, rate, 1
		case rate == best && rate > 0:
			if equal++; random.IntN(equal) == 0 {
				u = v
			}
		}
	}
	if u < 0 {
		return false
	}
	t.Parent[u], t.Round[u] = root, rounds
	return k.grow(t, near, root, rounds-1, random) && k.grow(t, far, u, rounds-1, random)
}
