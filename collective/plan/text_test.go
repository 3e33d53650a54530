package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// String writes p as a table that a person can read: one block per lane, in it
// the tracks in their order, one step a line. Two tracks of one rank run side
// by side.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v over %d ranks", p.Name, p.Kind, p.Size)
	if p.Kind.HasRoot() {
		fmt.Fprintf(&b, ", root %d", p.Root)
	}
	b.WriteByte('\n')
	for i, l := range p.Lanes {
		fmt.Fprintf(&b, "lane %d, ", i)
		if p.Kind.lanePerPart() {
			fmt.Fprintf(&b, "part %d, ", l.Part)
		}
		fmt.Fprintf(&b, "weight %s\n", strconv.FormatFloat(l.Weight, 'g', -1, 64))
		for _, t := range l.Tracks {
			label := fmt.Sprintf("  rank %-4d", t.Rank)
			for _, s := range t.Steps {
				fmt.Fprintf(&b, "%s %v\n", label, s)
				label = "           "
			}
		}
	}
	return b.String()
}
