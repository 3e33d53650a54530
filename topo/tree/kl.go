package tree

import (
	"errors"
	"math/rand/v2"

	"github.com/treerun/treerun/topo"
)

// maxKL is the number of ranks up to which KL bisects; above it leaves the
// work to Greedy.
const maxKL = 1 << 10

// maxFresh is the number of ranks up to which every tree of KLAll bisects
// anew, with the rates as earlier trees left them. Above, all trees are made
// from the same bisections.
const maxFresh = 64

// KLAttempts is the number of bisections that KL tries by default; above 64
// ranks it tries fewer.
const KLAttempts = 12

// KLOptions tunes KL and KLAll. The zero value holds the defaults.
type KLOptions struct {
	Seed     uint64 // of the random halves and of the choice between equal links; the same seed gives the same trees
	Attempts int    // bisections to try, the heaviest tree counts; 0: KLAttempts
}

func (o KLOptions) attempts(n int) int {
	switch {
	case o.Attempts > 0:
		return o.Attempts
	case n <= maxFresh:
		return KLAttempts
	}
	return 3
}

// KL returns a balanced reduce tree with the given root by the method of
// MXNet's single-machine AllReduce: the ranks are halved again and again along
// the lightest cut (Kernighan and Lin, "An efficient heuristic procedure for
// partitioning graphs", 1970), and the root of each half that has one takes in
// the other half over its heaviest link that crosses the cut. So the light
// links carry few of the tree's edges and the heavy ones many.
//
// It differs from MXNet's code where that fails. Halving goes on to single
// ranks, so every number of ranks works; every edge is a link of g; a pass of
// exchanges climbs over bad ones and keeps the best prefix, as the paper does.
// Several bisections are tried, and exchanges of two ranks improve their
// trees; the heaviest counts. When none of them finds a balanced tree, what Best
// finds comes in its place: the exact search up to MaxExact ranks, and where no
// balanced tree exists a deeper one, whose Note says so.
func KL(g *topo.Graph, root int, o KLOptions) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	return newKL(newNet(g), 1, o).tree(root), nil
}

// KLAll returns one tree of KL per root, tree r with root r, for messages that
// are cut into as many parts. After every tree the rate of each of its links
// is multiplied by penalty, 0 to 1, for the trees that come later: 1 lets all
// of them crowd on the heaviest links, LinkUsagePenalty is MXNet's default.
func KLAll(g *topo.Graph, penalty float64, o KLOptions) ([]topo.Tree, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if !(penalty >= 0 && penalty <= 1) {
		return nil, errors.New("tree: a link usage penalty is a factor of 0 to 1")
	}
	k := newKL(newNet(g), g.Ranks, o)
	trees := make([]topo.Tree, g.Ranks)
	for root := range trees {
		trees[root] = k.tree(root)
		k.g.use(trees[root], penalty)
	}
	return trees, nil
}

// use multiplies the rates of a tree's links.
func (g *net) use(t topo.Tree, penalty float64) {
	for v, p := range t.Parent {
		if p >= 0 {
			g.scale(v, p, penalty)
		}
	}
}

// kl makes trees over one net, whose rates may change between them.
type kl struct {
	g      *net
	o      KLOptions
	roots  int        // for how many trees are made
	shared []*cluster // bisections for all trees; nil up to maxFresh ranks
}

func newKL(g *net, roots int, o KLOptions) *kl {
	k := &kl{g: g, o: o, roots: roots}
	if g.n > maxFresh && g.n <= maxKL {
		for i := range o.attempts(g.n) {
			k.shared = append(k.shared, k.bisect(i, rand.New(rand.NewPCG(o.Seed, uint64(i)))))
		}
	}
	return k
}

// tree returns the heaviest tree of all attempts, or Best's.
func (k *kl) tree(root int) topo.Tree {
	t, ok := k.attempt(root)
	if !ok {
		return best(k.g, root, k.roots)
	}
	return t
}

// attempt returns the heaviest balanced tree of all attempts.
func (k *kl) attempt(root int) (t topo.Tree, ok bool) {
	if k.g.n > maxKL {
		return t, false
	}
	bestWeight := none
	for i := range k.o.attempts(k.g.n) {
		random := rand.New(rand.NewPCG(k.o.Seed, uint64(root)<<32|uint64(i)))
		var c *cluster
		if k.shared != nil {
			c = k.shared[i]
		} else {
			c = k.bisect(i, random)
		}
		g := newGrown(k.g, root, random)
		if !g.grow(c, root, topo.Rounds(k.g.n)) {
			continue
		}
		if k.shared == nil {
			exchange(k.g, g.t)
		}
		if w := k.g.weight(g.t); w > bestWeight {
			t, bestWeight = g.t, w
		}
	}
	if k.shared != nil && bestWeight > none {
		exchange(k.g, t)
	}
	return t, bestWeight > none
}

// bisect halves all ranks down to single ones. The first attempt starts from
// the order of the ranks, later ones from random orders.
func (k *kl) bisect(attempt int, random *rand.Rand) *cluster {
	ranks := make([]int, k.g.n)
	for i := range ranks {
		ranks[i] = i
	}
	if attempt > 0 {
		random.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
	}
	return halve(k.g, ranks)
}

// grown is a tree that grows along a bisection.
type grown struct {
	g      *net
	random *rand.Rand
	t      topo.Tree
}

func newGrown(g *net, root int, random *rand.Rand) *grown {
	t := topo.Tree{Root: root, Parent: make([]int, g.n), Round: make([]int, g.n)}
	t.Parent[root] = -1
	return &grown{g: g, random: random, t: t}
}

// grow hangs the ranks of c below root, which is one of them, in so many
// rounds. It fails when root has no link into the other half of a cluster.
func (w *grown) grow(c *cluster, root, rounds int) bool {
	if len(c.ranks) == 1 {
		return true
	}
	near, far := c.halves[0], c.halves[1]
	if far.has(root) {
		near, far = far, near
	}
	u := w.heaviest(root, far.ranks)
	if u < 0 {
		return false
	}
	w.t.Parent[u], w.t.Round[u] = root, rounds
	return w.grow(near, root, rounds-1) && w.grow(far, u, rounds-1)
}

// heaviest returns the rank to which root has the heaviest link, any of them
// among equals; -1 when it has none.
func (w *grown) heaviest(root int, ranks []int) int {
	best, bestRate, equal := -1, 0.0, 0
	for _, v := range ranks {
		switch rate := w.g.at(root, v); {
		case rate > bestRate:
			best, bestRate, equal = v, rate, 1
		case rate == bestRate && rate > 0:
			if equal++; w.random.IntN(equal) == 0 {
				best = v
			}
		}
	}
	return best
}
