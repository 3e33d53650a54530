package bench

import (
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
)

func TestExplanation(t *testing.T) {
	price := 4.0
	p := &meter.Row{Collective: "reduce", NP: 3, Bytes: 65536, Plan: "tree", Explained: &meter.Explained{
		Candidates: []meter.Candidate{{Plan: "tree", Us: 5.25, PredictedUs: &price}, {Plan: "direct", Us: 3}},
		By:         "price", Links: "Links allow much",
	}}
	want := `reduce of 64K (65536 bytes) on 3 ranks
          plan  predicted (us)   measured (us)
          tree            4.00            5.25  chosen by price
        direct               -            3.00
the quickest was direct
Links allow much
`
	if got := explanation(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
