package tcp

import "github.com/treerun/treerun/transport"

// Decides reports whether this rank is the one to decide for a report of f.
func (e *Endpoint) Decides(f transport.Fault) bool { return e.decides(&f) }

// DecideHere makes f the fault of this rank's host, as a rank does that ends before it has sent its decision to other
// hosts.
func (e *Endpoint) DecideHere(f transport.Fault) { e.local.Decide(f) }
