package comm

import (
	"sync"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// prepared counts the persistent calls of a communicator, those apart whose IDs differ.
type prepared struct {
	mu    sync.Mutex
	alike map[call.ID]int
}

// Prepare gives a, which will be called many times, its number among prepared calls with the same ID. Ranks that
// start two of them in different orders thus make different calls. Barriers have no number: they are interchangeable.
// Any goroutine may call it.
func (a *Args) Prepare(c *Comm) {
	switch {
	case c.none:
		a.Refuse(c, "")
		return
	case a.Err != nil || a.Kind == plan.Barrier:
		return
	}
	p, id := &c.prepared, a.ID
	if id.CountsAtRoot() {
		id.Count = 0 // each rank has its own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alike == nil {
		p.alike = map[call.ID]int{}
	}
	a.ID.Number = uint16(p.alike[id] % call.Numbers)
	p.alike[id]++
}
