//go:build linux

package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// Ended returns what the status page of a rank that has ended has about its latest calls. It returns nil for a rank
// without a page, and for one that has ended well after Close.
func Ended(rank, pid int, page io.ReaderAt, well bool) *Rank {
	p, err := status.ReadEnded(page)
	if err != nil || p.Size == 0 || well && p.Phase == status.Closed {
		return nil
	}
	r := &Rank{Rank: rank, PID: pid}
	var s waits.Status
	if len(p.Waits) > 0 && strict.Unmarshal(p.Waits, &s) == nil && s.Check(max(p.Size, 1)) == nil {
		r.Waits = s.Waits
	}
	p.Waits = nil
	for i := range p.Comms {
		p.Comms[i].Totals = nil
	}
	r.Page = p
	return r
}

// LastLine describes in one line the latest calls of a rank that has ended, of every communicator the latest three.
func (j *Job) LastLine(r *Rank) string {
	const most = 3
	parts := []string{j.doing(r)}
	for i := range r.Page.Comms {
		c := &r.Page.Comms[i]
		latest := c.Latest
		if c.In != "" && len(latest) > 0 && latest[0].Name() == c.In {
			latest = latest[1:] // doing has it
		}
		var calls []string
		for _, id := range latest[:min(len(latest), most)] {
			calls = append(calls, id.String())
		}
		if len(calls) > 0 {
			parts = append(parts, scoped("after "+strings.Join(calls, ", "), c.Name))
		}
	}
	return strings.Join(parts, "; ")
}

// doing describes the call that a rank was in when it ended, and the ranks that it waited for.
func (j *Job) doing(r *Rank) string {
	in := r.in()
	if in == "" {
		return "in no call"
	}
	text := "in " + in
	if to := j.waitedFor(r); len(to) > 0 {
		text += ", waiting for " + RanksText(to)
	}
	return text
}

// LastCalls lists, for people, all calls that the page of a rank that has ended has, the latest first.
func (j *Job) LastCalls(r *Rank) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rank %d was %s\n", r.Rank, j.doing(r))
	if n := r.Page.Hidden; n > 0 {
		fmt.Fprintf(&b, "    its calls on %s are not known\n", numbers.Count(n, "further communicator"))
	}
	for i := range r.Page.Comms {
		c := &r.Page.Comms[i]
		closed := ""
		if c.Closed {
			closed = ", which it had closed"
		}
		fmt.Fprintf(&b, "    on %s, of %s%s:\n", cmp.Or(c.Name, "a communicator"), numbers.Count(c.Size, "rank"), closed)
		if len(c.Latest) == 0 {
			b.WriteString("        no collective\n")
		}
		for k, id := range c.Latest {
			under := ""
			if k == 0 && id.Name() == c.In {
				under = "    (not returned)"
			}
			fmt.Fprintf(&b, "        %s%s\n", id, under)
		}
	}
	return b.String()
}
