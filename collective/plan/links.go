package plan

import (
	"cmp"
	"slices"
)

// Link is one FIFO that a Plan uses: chunks of one lane from rank Src to rank
// Dst.
type Link struct {
	Lane, Src, Dst int
}

// Links returns the FIFOs that p uses, each once, sorted by lane, source and
// destination.
func (p *Plan) Links() []Link {
	var out []Link
	for i, l := range p.Lanes {
		for _, t := range l.Tracks {
			for _, s := range t.Steps {
				if s.Op.Sends() {
					out = append(out, Link{i, t.Rank, int(s.To)})
				}
				if s.Op.Receives() {
					out = append(out, Link{i, int(s.From), t.Rank})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Link) int {
		return cmp.Or(a.Lane-b.Lane, a.Src-b.Src, a.Dst-b.Dst)
	})
	return slices.Compact(out)
}
