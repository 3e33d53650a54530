package comm

import (
	"sync"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// prepared counts the persistent calls of a communicator, those apart whose headers differ.
type prepared struct {
	mu    sync.Mutex
	alike map[transport.Header]int
}

// Prepare gives a, which is to be called many times, its number among those of its like. Ranks that start two of them
// in another order so call different ones. Barriers have no number: which one it is makes no difference. Any goroutine
// may call it.
func (c *Comm) Prepare(a *Args) {
	switch {
	case c.none:
		a.Refuse(c, "")
		return
	case a.Err != nil || a.Kind == plan.Barrier:
		return
	}
	p, h := &c.prepared, a.header(0)
	if a.rooted() {
		h.Count = 0 // each rank has its own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alike == nil {
		p.alike = map[transport.Header]int{}
	}
	a.number = p.alike[h]
	p.alike[h]++
}
