package drive

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Trees runs the merge of sorted block streams along several trees at once, with a merge.Node in each. It is reused for
// one tensor after the other: Begin, and then it is an Exchange.
type Trees struct {
	rankLinks
	trees []tree
	head  call.Header
	left  int // trees that are not done

	finder    merge.Finder // finder of this rank's blocks; nil: they are all known
	grid      block.Grid
	yieldedAt int // blocks that were known when this rank last yielded its core
}

// NewTrees returns a Trees for a rank along trees, whose links ep has.
func NewTrees(ep transport.Endpoint, trees []topo.Tree, rank int) (*Trees, error) {
	m := &Trees{rankLinks: rankLinks{ep, rank}}
	for i, t := range trees {
		e, err := openTree(ep, i, t, rank)
		if err != nil {
			return nil, fmt.Errorf("sparse: rank %d, tree %d: %w", rank, i, err)
		}
		if e.node != nil {
			m.trees = append(m.trees, e)
		}
	}
	return m, nil
}

// Begin starts the next tensor; every tree has its part of the blocks. With inOrder, a block is added in rank order
// among those of a rank and its children; without it, the rank's own blocks are the first.
func (m *Trees) Begin(head call.Header, j merge.Job, parts []block.Set, inOrder bool) error {
	m.head, m.left, m.yieldedAt = head, len(m.trees), 0
	m.grid, m.finder = j.Grid, j.Finder
	for i := range m.trees {
		t := &m.trees[i]
		j.Blocks = parts[t.number]
		if inOrder {
			j.Before = t.before
		}
		if err := t.node.Begin(j); err != nil {
			return err
		}
		if least := t.node.LeastWindow(); least > m.ep.MaxPayload() {
			return fmt.Errorf("sparse: a block takes %d bytes, slots hold %d", least, m.ep.MaxPayload())
		}
		t.busy = true
	}
	return nil
}

// Done reports whether all trees are done.
func (m *Trees) Done() bool { return m.left == 0 }

// mergeLimit is the number of bytes of a tree that a rank merges before it polls its other links.
const mergeLimit = 64 << 10

// Poll makes the progress that is possible now. Ranks begin with different trees, so that not all of them send their
// first chunks to the same root.
func (m *Trees) Poll() (moved bool, err error) {
	for k := range m.trees {
		i := (m.rank + k) % len(m.trees)
		t := &m.trees[i]
		if !t.busy {
			continue
		}
		for _, step := range [...]func(*tree) (bool, error){m.feed, m.sendUp, m.fromParent, m.sendDown} {
			did, err := step(t)
			if err != nil {
				return moved, fmt.Errorf("tree %d: %w", t.number, err)
			}
			moved = moved || did
		}
		if t.node.Done() {
			t.busy = false
			m.left--
			for j := range t.children {
				t.children[j].release()
			}
		}
	}
	return m.search() || moved, nil
}

// Intervals of a search, in bytes of the tensor: between polls of the links, and between yields of a core that the rank
// shares with others. The result of any rank needs the blocks of all ranks: so all should progress equally, and ranks
// that have not even greeted come first. A yield every 2 MB was as good, one every 8 MB took the others longer.
const (
	searchBytes = 1 << 20
	turnBytes   = 4 << 20
)

// search continues the search, whether or not messages moved, and reports whether there was anything left to search.
func (m *Trees) search() bool {
	if !m.searching() {
		return false
	}
	for to := m.finder.Known() + max(1, searchBytes/m.grid.BlockBytes()); m.searching() && m.finder.Known() < to; {
		m.finder.Find()
	}
	return true
}

// searching reports whether this rank does not know all of its blocks yet.
func (m *Trees) searching() bool { return m.finder != nil && m.finder.Known() < m.grid.Blocks() }

// shouldYield reports, once for every turnBytes of the search, that the rank should yield its core to another one.
func (m *Trees) shouldYield() bool {
	if !m.searching() || m.finder.Known()-m.yieldedAt < turnBytes/m.grid.BlockBytes() {
		return false
	}
	m.yieldedAt = m.finder.Known()
	return true
}

// feed passes chunks of children to the Node, and lets it merge.
func (m *Trees) feed(t *tree) (moved bool, err error) {
	for i := range t.children {
		c := &t.children[i]
		if !t.node.NeedsChunk(i) {
			continue
		}
		c.release()
		chunk, ok, err := m.peek(c.of)
		if err == nil && ok {
			c.fed, moved = true, true
			err = t.node.Feed(i, chunk)
		}
		if err != nil {
			return moved, transport.OnLink(err, "blocks from", c.rank)
		}
	}
	return t.node.Merge(mergeLimit) || moved, nil
}

// release releases the chunk that the Node has used.
func (c *peer) release() {
	if c.fed {
		c.of.Release()
		c.fed = false
	}
}

// peek returns the next chunk of a link.
func (m *Trees) peek(r transport.Receiver) ([]byte, bool, error) {
	var h call.Header
	chunk, ok, err := r.TryPeek(&h)
	if err != nil || !ok {
		return nil, false, err
	}
	if h != m.head {
		return nil, false, fmt.Errorf("%w: it is of another call (number %d, %d elements)", block.ErrMismatch, h.Seq, h.Count)
	}
	return chunk, true, nil
}

// sendUp sends the available chunks to the parent, as far as there is room.
func (m *Trees) sendUp(t *tree) (moved bool, err error) {
	for t.parent.rank >= 0 {
		most := t.node.Window(m.ep.MaxPayload())
		if most == 0 {
			break
		}
		n, err := m.send(t.parent.to, most, t.node.Up)
		if err != nil || n == 0 {
			return moved, transport.OnLink(err, "sending to", t.parent.rank)
		}
		moved = true
	}
	return moved, nil
}

// send composes a chunk of at most the given number of bytes in a slot of a link and sends it. It returns 0 if there is
// no chunk, or no room.
func (m *Trees) send(to transport.Sender, most int, compose func([]byte) int) (n int, err error) {
	window, ok, err := to.TryReserve(most)
	if err != nil || !ok {
		return 0, err
	}
	if n = compose(window); n == 0 {
		return 0, nil
	}
	if err := m.cut(to, window, n); err != nil {
		return 0, err
	}
	to.Commit(&m.head)
	return n, nil
}

// cut shortens the reserved window of a link to n bytes, and keeps its contents. A short window may lie elsewhere.
func (m *Trees) cut(to transport.Sender, window []byte, n int) error {
	short, ok, err := to.TryReserve(n)
	if err == nil && !ok {
		err = fmt.Errorf("the slot of %d bytes is not there any more", len(window))
	}
	if err == nil && &short[0] != &window[0] {
		copy(short, window[:n])
	}
	return err
}

// fromParent processes the chunks that the parent has sent.
func (m *Trees) fromParent(t *tree) (moved bool, err error) {
	for t.node.ExpectsResult() {
		chunk, ok, err := m.peek(t.parent.of)
		if err == nil && ok {
			err = t.node.Down(chunk)
		}
		if err != nil || !ok {
			return moved, transport.OnLink(err, "results from", t.parent.rank)
		}
		t.parent.of.Release()
		moved = true
	}
	return moved, nil
}

// sendDown sends the available chunks to the children, as far as there is room.
func (m *Trees) sendDown(t *tree) (moved bool, err error) {
	for i := range t.children {
		c := &t.children[i]
		for {
			n, err := m.send(c.to, m.ep.MaxPayload(), func(window []byte) int { return t.node.ToChild(i, window) })
			if err != nil {
				return moved, transport.OnLink(err, "sending to", c.rank)
			}
			if n == 0 {
				break
			}
			moved = true
		}
	}
	return moved, nil
}

// Counts adds up the counts of the Nodes, and separately those of trees in which this rank has no children, where it
// sends only its own blocks.
func (m *Trees) Counts() (all, own block.Counts) {
	for i := range m.trees {
		c := m.trees[i].node.Counts()
		all.Add(c)
		if len(m.trees[i].children) == 0 {
			own.Add(c)
		}
	}
	return all, own
}

// WaitsFor returns the missing messages and their ranks.
func (m *Trees) WaitsFor() []waits.Blocker {
	var list []waits.Blocker
	for i := range m.trees {
		t := &m.trees[i]
		if !t.busy {
			continue
		}
		before := len(list)
		for j, c := range t.children {
			if t.node.NeedsChunk(j) {
				list = append(list, waits.Blocker{Rank: c.rank, What: fmt.Sprintf("to send blocks of tree %d", t.number)})
			}
		}
		if len(list) == before && t.parent.rank >= 0 {
			list = append(list, waits.Blocker{Rank: t.parent.rank, What: fmt.Sprintf("to send the result of tree %d", t.number)})
		}
	}
	if len(list) == 0 {
		return []waits.Blocker{{Rank: -1, What: "other ranks to take results"}}
	}
	return list
}
