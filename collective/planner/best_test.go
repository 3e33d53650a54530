package planner

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil"
)

var (
	bestTable = flag.String("best-table", "", "write the table of TestDefaultIsBest to this `FILE`, for many models")
	allModels = flag.Bool("all-models", false, "with -best-table: for all models, which takes hours")
)

// bestRow compares the default plan of a model with requested ones.
type bestRow struct {
	model
	kind         plan.Kind
	bytes        int64
	plan, other  string  // the names of the default and of the best requested algorithm
	us, otherUs  float64 // their prices
	boundUs      float64 // the time at the bound; NaN where none is known
	planningTime time.Duration
}

// overBest is the price of the default over that of the best requested algorithm, overBound over the time at the bound.
func (r *bestRow) overBest() float64  { return r.us / r.otherUs }
func (r *bestRow) overBound() float64 { return r.us / r.boundUs }

var bestKinds = []plan.Kind{plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.Broadcast}

// compareBest prices the default and the requested algorithms for all sizes, on devices.
func compareBest(t *testing.T, m model, sizes []int64) (rows []bestRow) {
	t.Helper()
	var requests []string
	for _, name := range Algorithms() {
		slow := name == "exact" || name == "kl" || name == "multi" || name == "hierarchical"
		most := jointRanks
		if *bestTable != "" && name == "multi" {
			most = directRanks
		}
		if !slow || m.graph.Ranks <= most {
			requests = append(requests, name)
		}
	}
	requests = append(requests, "hierarchical:star/direct", "packing,max-trees=2", "packing,max-trees=4",
		"packing,max-trees=8")
	for _, kind := range bestKinds {
		begun := time.Now()
		p := plannerFor(t, m.graph, Machine{Device: true}, Options{})
		bound, err := p.Site.Certify(kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		first := len(rows)
		for _, bytes := range sizes {
			c := choose(t, p, kind, 0, bytes)
			r := bestRow{model: m, kind: kind, bytes: bytes, plan: c.Chosen.Name(), us: c.PredictedUs,
				otherUs: math.Inf(1), boundUs: math.NaN()}
			if bound.Rate > 0 {
				r.boundUs = float64(bytes) / bound.Rate / 1e3
			}
			rows = append(rows, r)
		}
		for i := range rows[first:] {
			rows[first+i].planningTime = time.Since(begun)
		}
		for _, request := range requests {
			o, err := ParseOptions(request)
			if err != nil {
				t.Fatal(err)
			}
			p := plannerFor(t, m.graph, Machine{Device: true}, o)
			if p.Supports(kind, 0) != nil {
				continue
			}
			for i := range rows[first:] {
				r := &rows[first+i]
				if us := choose(t, p, kind, 0, r.bytes).PredictedUs; us < r.otherUs {
					r.other, r.otherUs = request, us
				}
			}
		}
	}
	return rows
}

// TestDefaultIsBest: without a request a plan is priced no more than 2 % above the best requested one, and large
// messages take little more time than at the bound. With -best-table it is the table of scripts/plans.sh.
func TestDefaultIsBest(t *testing.T) {
	if *bestTable != "" {
		writeBestTable(t)
		return
	}
	names := []string{"bridges6", "dgx1v less 4-7", "pcie7", "part8 x 2, 8 cards"}
	names = names[:testutil.Count(2, len(names))]
	for _, m := range models(false) {
		if !slices.Contains(names, m.graph.Name) {
			continue
		}
		for _, r := range compareBest(t, m, []int64{64 << 10, 256 << 20}) {
			if r.overBest() > 1.02 || r.bytes >= 256<<20 && r.overBound() > 1.25 {
				t.Errorf("%s, %v of %s: %s takes %.0f us, %s %.0f us, the bound %.0f us", m.graph.Name, r.kind,
					numbers.Bytes(r.bytes), r.plan, r.us, r.other, r.otherUs, r.boundUs)
			}
		}
	}
}

// writeBestTable writes the table of all models.
func writeBestTable(t *testing.T) {
	sizes := []int64{8, 64 << 10, 16 << 20, 256 << 20, 1 << 30}
	var rows []bestRow
	for _, m := range models(*allModels) {
		rows = append(rows, compareBest(t, m, sizes)...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## By family\n\nTime over the time at the bound: median, 90th percentile and maximum.\n\n"+
		"| family | models | collective | 256 MiB | 1 GiB | over the best request |\n|---|---|---|---|---|---|\n")
	var families []string
	for _, r := range rows {
		if !slices.Contains(families, r.family) {
			families = append(families, r.family)
		}
	}
	for _, family := range append(families, "") {
		for _, kind := range bestKinds {
			mine := slices.DeleteFunc(slices.Clone(rows), func(r bestRow) bool {
				return family != "" && r.family != family || r.kind != kind
			})
			of := func(bytes int64) string {
				return spread(mine, func(r *bestRow) (float64, bool) { return r.overBound(), r.bytes == bytes && r.boundUs > 0 })
			}
			fmt.Fprintf(&b, "| %s | %d | %v | %s | %s | %s |\n", cmp.Or(family, "all"), len(mine)/len(sizes), kind,
				of(256<<20), of(1<<30), spread(mine, func(r *bestRow) (float64, bool) { return r.overBest(), true }))
		}
	}
	worst := func(title string, over func(*bestRow) float64, counts func(*bestRow) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n| model | collective | bytes | plan | us | best requested | us | at the bound, us | "+
			"planning, s |\n|---|---|---|---|---|---|---|---|---|\n", title)
		list := slices.DeleteFunc(slices.Clone(rows), func(r bestRow) bool { return !counts(&r) })
		slices.SortStableFunc(list, func(x, y bestRow) int { return cmp.Compare(over(&y), over(&x)) })
		for _, r := range list[:min(len(list), 20)] {
			fmt.Fprintf(&b, "| %s | %v | %s | %s | %.0f | %s | %.0f | %.0f | %.2f |\n", r.graph.Name, r.kind,
				numbers.Bytes(r.bytes), r.plan, r.us, r.other, r.otherUs, r.boundUs, r.planningTime.Seconds())
		}
	}
	worst("The worst over the best requested", (*bestRow).overBest, func(r *bestRow) bool { return true })
	worst("The worst over the bound, 256 MiB", (*bestRow).overBound,
		func(r *bestRow) bool { return r.bytes == 256<<20 && r.boundUs > 0 })
	worst("The longest planning", func(r *bestRow) float64 { return r.planningTime.Seconds() },
		func(r *bestRow) bool { return r.bytes == 256<<20 })
	if err := os.WriteFile(*bestTable, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// spread returns the median, the 90th percentile and the maximum of what counts.
func spread(rows []bestRow, of func(*bestRow) (float64, bool)) string {
	var list []float64
	for i := range rows {
		if v, counts := of(&rows[i]); counts {
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return "-"
	}
	slices.Sort(list)
	return fmt.Sprintf("%.2f, %.2f, %.2f", list[(len(list)-1)/2], list[len(list)*9/10], list[len(list)-1])
}
