package comm

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// Prepare gives a, which will be called many times, its number among prepared calls with the same ID, counted from
// first, which is 0 or call.FirstOfBuckets. Ranks that start two of them in different orders thus make different calls.
// Barriers have no number: they are interchangeable. Any goroutine may call it.
func (a *Args) Prepare(c *Comm, first int) {
	switch {
	case c.none:
		a.Refuse(c, "")
		return
	case a.Err != nil || a.Kind == plan.Barrier:
		return
	}
	a.counts, a.receives = slices.Clone(a.counts), slices.Clone(a.receives)
	a.ID.Number = uint16(first)
	id := a.ID
	if id.CountsAtRoot() {
		id.Count = 0 // each rank has its own
	}
	c.preparing.Lock()
	defer c.preparing.Unlock()
	a.ID.Number += uint16(c.prepared[id] % call.FirstOfBuckets)
	c.prepared[id]++
}
