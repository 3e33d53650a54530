package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
)

// maxDrawn is the number of ranks up to which the graph is drawn; maxPlans is the number of plans that are.
const (
	maxDrawn = 128
	maxPlans = 3
)

// pictures draws the graph of the ranks, and the plans of the collectives that have moved most bytes; missing is why
// there are none.
func pictures(j *recording.Job, calls []callRow) (list []picture, missing string) {
	var form []byte
	for i := range j.Processes {
		if f := j.Processes[i].Planner; len(f) > 0 {
			form = f
		}
	}
	if len(form) == 0 {
		return nil, "The graph is not known: no communicator of all ranks was made, or it has too many links."
	}
	p, g, err := planner.FromPortable(form)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("The graph cannot be shown: %v.", err)
	case g.Ranks > maxDrawn:
		return nil, fmt.Sprintf("The graph of %d ranks is too large for a picture: treerun plan --format svg draws its "+
			"plans.", g.Ranks)
	}
	about := fmt.Sprintf("%s with %s", numbers.Count(g.Ranks, "rank"), numbers.Count(len(g.Links), "link"))
	for _, c := range mostBytes(calls) {
		if p := planPicture(p, g, c); p != nil {
			p.About = p.Title + ", on " + about
			list = append(list, *p)
		}
	}
	if len(list) == 0 {
		list = append(list, picture{Title: "The graph of the ranks", About: about, SVG: draw.SVG(g, draw.Plan{})})
	}
	return list, ""
}

// mostBytes returns the calls of each sort that have moved most bytes, those of most first.
func mostBytes(calls []callRow) (best []callRow) {
	for _, c := range calls {
		c.Call = strings.TrimSuffix(c.Call, "Func")
		i := slices.IndexFunc(best, func(o callRow) bool { return o.Call == c.Call })
		switch {
		case c.Bytes == 0:
		case i < 0:
			best = append(best, c)
		case c.Bytes > best[i].Bytes:
			best[i] = c
		}
	}
	slices.SortStableFunc(best, func(a, b callRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return best[:min(len(best), maxPlans)]
}

// planPicture draws the plan of calls, nil for one of which there is no picture.
func planPicture(p *planner.Planner, g *topo.Graph, c callRow) *picture {
	var kind plan.Kind
	if kind.UnmarshalText([]byte(strings.ToLower(c.Call))) != nil {
		return nil
	}
	root, where := -1, ""
	if kind.HasRoot() {
		root, where = 0, ", from root 0"
	}
	choice, err := p.Choose(kind, root, c.Bytes/c.Calls)
	if err != nil {
		return nil
	}
	var d draw.Plan
	for _, s := range choice.Chosen.Candidate.Channels {
		if s.Ring == nil {
			d.Trees = append(d.Trees, s.Tree)
		} else {
			d.Rings = append(d.Rings, s.Ring)
		}
		d.Rates = append(d.Rates, s.Rate)
	}
	d.Title = planOf(c.Call, c.Bytes/c.Calls, choice.Chosen.Name()) + where
	how := "no tree: ranks exchange data with each other directly"
	switch {
	case len(d.Rings) > 0:
		how = numbers.Count(len(d.Rings), "ring")
	case len(d.Trees) > 0:
		how = numbers.Count(len(d.Trees), "tree")
	}
	return &picture{Title: d.Title + "; " + how, SVG: draw.SVG(g, d)}
}
