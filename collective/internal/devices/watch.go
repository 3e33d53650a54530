package devices

import (
	"cmp"
	"slices"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// watch checks the calls under way. If a stream waits for a rank that will never come, the communicator fails, and the
// stream continues.
func (d *Session) watch() {
	if d.passFault() {
		return
	}
	left, err := d.calls.retire()
	switch {
	case err != nil:
		d.groupFailed(err)
		d.passFault()
	case left == 0:
		d.waiting.Clear()
		d.log.abortOnMismatch()
	default:
		d.compare()
		d.publish()
	}
}

// compare checks whether the other ranks have made the same calls, and have not left before one that is under way.
func (d *Session) compare() {
	p, found := d.calls.oldest()
	if !d.log.abortOnMismatch() || !found {
		return
	}
	c := d.c
	for i, r := range d.block.local {
		if i != d.block.mine && d.block.stage(i).Load() != stageOpen && d.isLate(&p, r) {
			d.links.Abort(transport.ClosedFault(r, c.Rank, p.String()))
			return
		}
	}
	if p.peer >= 0 {
		p.id = call.ID{} // a rank that has left may have been in no call
	}
	c.Engine.Calls.CheckCall(p.id)
}

// isLate reports whether rank r is known not to have come to p.
func (d *Session) isLate(p *pending, r int) bool {
	i := slices.Index(d.block.local, r)
	switch st := d.c.Endpoint.Status(r); {
	case r == d.c.Rank:
		return false
	case p.peer < 0:
		return !st.Unknown && st.Call.Seq < p.id.Seq
	case r != p.peer:
		return false
	}
	if i < 0 {
		return d.group.AwaitsPeer(r, p.sends)
	}
	return d.block.notes(i, d.block.mine).count(!p.sends).Load() < p.id.Seq
}

// publish names the ranks that have not come to the oldest call, and ends the communicator when that lasts too long.
func (d *Session) publish() {
	p, found := d.calls.oldest()
	var late []waits.Blocker
	for r := range d.c.Size {
		if found && d.isLate(&p, r) {
			late = append(late, waits.Blocker{Rank: r, What: "to " + cmp.Or(p.lacks, "call it")})
		}
	}
	if len(late) == 0 {
		d.waiting.Clear()
		return
	}
	if p.peer >= 0 && !slices.Contains(d.block.local, p.peer) {
		p.since = d.group.MovedAt(p.peer, p.sends, p.since)
	}
	if stalled := d.waiting.Publish(p.String(), p.since, late); stalled != nil {
		d.links.Abort(transport.Fault{Kind: transport.FaultStalled, Rank: d.waiting.Scope.Index(stalled.Rank),
			Text: stalled.Error()})
	}
}
