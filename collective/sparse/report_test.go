package sparse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/testutil"
)

// The choice for a call is reported once, in whatever order calls alternate, and again when it changes.
func TestSaidOnce(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	errs := testutil.NewJob(oneHost(2)...).Run(t, func(member *testutil.World) error {
		w := worldOf(member)
		w.Settings["verbose"] = "1"
		return asRank(t, w, oneHost(2), func(c *collective.Comm) error {
			for i := range 4 {
				for _, n := range []int{1000, 3000} {
					for _, form := range []Form{Trees, Aggregators} {
						if _, err := AllReduce(t.Context(), c, make([]float32, n), make([]float32, n), collective.Sum,
							Use(form)); err != nil {
							return err
						}
					}
				}
				// another length every time
				rows := Pairs[float32]{Indices: make([]uint32, i), Values: make([]float32, 5*i), Width: 5}
				for k := range rows.Indices {
					rows.Indices[k] = uint32(k)
				}
				if _, _, err := AllReducePairs(t.Context(), c, rows, Use(Trees)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	text, err := os.ReadFile(file.Name())
	for _, e := range append(errs, err) {
		if e != nil {
			t.Fatal(e)
		}
	}
	if n := strings.Count(string(text), "as selected by the caller"); n != 5 {
		t.Errorf("%d choices were reported, want 5:\n%s", n, text)
	}
}

// A choice that changes is reported once; and with more and more kinds of calls the reports end.
func TestNews(t *testing.T) {
	s := state{reported: make(map[string]bool)}
	one, two := call{What: allReduce, Count: 1}, call{What: allReduce, Count: 2}
	for i, step := range []struct {
		call call
		form Form
		want bool
	}{
		{one, Dense, true}, {two, Trees, true}, {one, Dense, false}, {two, Trees, false}, {one, Trees, true},
		{two, Trees, false}, {one, Dense, false},
	} {
		if is := s.news(step.call, step.form); is != step.want {
			t.Errorf("step %d: news %v", i, is)
		}
	}
	reported := 3
	for i := range 3 * maxReported {
		if s.news(call{What: allReduce, Count: int64(10 + i)}, Dense) {
			reported++
		}
	}
	if reported != maxReported {
		t.Errorf("%d were reported", reported)
	}
}
