package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/block"
)

func TestCases(t *testing.T) {
	all := cases()
	list := names(all)
	slices.Sort(list)
	if len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Errorf("two cases have one name: %v", list)
	}
	some, err := chosen(all, []string{"4x2-plain", "4x2-price*"})
	if err != nil || len(some) != 3 || some[0].np() != 8 || some[1].row("random") != "4x2-price-random" || some[2].row("full") != "4x2-price-full" {
		t.Errorf("chose %v, %v", names(some), err)
	}
	own, err := chosen(all, []string{"1x4-own"})
	if err != nil || own[0].row("random") != "1x4-own-random" || !strings.HasSuffix(strings.Join(own[0].bench(1, true), " "), "--form aggregators --aggregators 4") {
		t.Errorf("%v, %v", own, err)
	}
	if _, err := chosen(all, []string{"4x2"}); err == nil {
		t.Error("a case that is not there was chosen")
	}
	for _, c := range some {
		line := strings.Join(c.bench(3, true), " ")
		if sparse := strings.Contains(line, "--density"); sparse == (c.form == "plain") || !strings.Contains(line, "--json -") {
			t.Errorf("%s: %s", c.name, line)
		}
	}
}

func TestRows(t *testing.T) {
	c := &testCase{name: "4x2-price-others", form: "price", what: "others", overlap: "full,none"}
	out := `words
{"collective":"sparse-allreduce","bytes":100,"time_us":250.5,"in_place":true,"wrong":0,"floor_us":100,"predicted_us":300,"plan":"trees","sparse":{"density":0.01,"overlap":"full","form":"trees","union_density":0.02,"sent_bytes":77,"find_us":9}}
`
	r, err := rowsOf(c, []byte(out))
	want := entry{Case: "4x2-price-full", TimeUs: 250.5, InPlace: true, Density: 0.01, Form: "trees", Union: 0.02, Sent: 77, FloorUs: 100, Predict: 300, FindUs: 9, Verified: true}
	if err != nil || len(r) != 1 || r[0] != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
	for _, bad := range []string{"", "{}", strings.Replace(out, `"wrong":0`, `"wrong":3`, 1)} {
		if _, err := rowsOf(c, []byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Of repetitions the median counts, and only what was measured again is replaced.
func TestMedians(t *testing.T) {
	r := record{{Fact: "a", Value: "b"}, {Case: "x", TimeUs: 9}, {Case: "y", TimeUs: 7}}
	rows := record{{Case: "x", TimeUs: 5, Form: "trees"}, {Case: "x", TimeUs: 1, Form: "dense", Verified: true}, {Case: "x", Density: .1, TimeUs: 4}, {Case: "x", TimeUs: 3, Form: "dense"}}
	want := record{r[0], r[2], {Case: "x", TimeUs: 3, Form: "dense", Verified: true, Runs: 3}, {Case: "x", Density: .1, TimeUs: 4, Runs: 1}}
	if got := r.with(rows); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestPage(t *testing.T) {
	r := record{
		{Fact: "machine", Value: "two cores"},
		{Case: "4x2-plain", TimeUs: 2.6e6, InPlace: true},
		{Case: "4x2-openmpi", TimeUs: 3e6, InPlace: true},
		{Case: "4x2-price-full", TimeUs: 1e5, InPlace: true, Density: .01, Union: .01, Form: "trees", FloorUs: 9e4, Sent: 2e6},
		{Case: "1x2-plain", TimeUs: 15e3, InPlace: true},
		{Case: "1x2-price-full", TimeUs: 5e3, InPlace: true, Density: .01, Union: .01, Form: "trees", FloorUs: 3e3, FindUs: 2e3},
		{Case: "4x2-aggregators-random", TimeUs: 2e6, InPlace: true, Density: .1},
		{Case: "4x2-own-random", TimeUs: 3e6, InPlace: true, Density: .1},
		{Case: "1x8-plain", TimeUs: 9e4, InPlace: true},
		{Case: "1x8-price-full", TimeUs: 5e4, InPlace: true, Density: .1, Form: "trees"},
		{Case: "1x8-trees-full", TimeUs: 6e4, InPlace: true, Density: .1, Form: "trees"},
		{Case: "1x8-shared-full", TimeUs: 4e4, InPlace: true, Density: .1, Form: "shared"},
	}
	text, err := r.text()
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse(text)
	if err != nil || !slices.Equal(again, r) {
		t.Fatalf("%v, %v", again, err)
	}
	p := page(again)
	for _, want := range []string{"two cores", "| 26.00 | reached |", "| 30.00 | reached |", "| 3.00 | **missed** | to search the tensors alone, 2.00 ms, is 7.5 times", "| 0.01 | 1 % | 100 ms trees |", "Open MPI: 3000 ms",
		"(1x8-price-full, density 0.1, in place true: trees, 60.0 ms; shared, 40.0 ms)", "| 1.50 | **missed** |", "| by price | trees | aggregators | shared |",
		"| four, 8 ranks | 0.1 | 2000 ms | 3000 ms |\n"} {
		if !strings.Contains(p, want) {
			t.Errorf("no %q in\n%s", want, p)
		}
	}
}

// What ranks can reach at best is that of package block's Limit.
func TestAttainable(t *testing.T) {
	const hosts, blocks = 4, 20000
	for _, d := range []float64{1, .4, .1, .01} {
		var sets []block.Set
		for h := range hosts {
			s := block.NewSet(blocks)
			for rank := range 2 {
				r := rand.New(rand.NewPCG(uint64(h), uint64(rank)))
				for b := range blocks {
					if r.Float64() < d {
						s.Add(b)
					}
				}
			}
			sets = append(sets, s)
		}
		l := block.LimitOf(block.Grid{Elements: blocks, Size: 1, Width: 1}, sets)
		want := float64(l.Rank) / max(float64(l.Rank), float64(l.Together)/hosts)
		if got := attainable(hosts, 2, d, "random"); math.Abs(got-want) > 0.03 {
			t.Errorf("density %g: %.3f, want about %.3f", d, got, want)
		}
	}
	if got := attainable(4, 2, .01, "full"); math.Abs(got-4.0/6) > 1e-9 {
		t.Errorf("full overlap: %v", got)
	}
	if got := attainable(4, 2, .01, "none"); got != 1 {
		t.Errorf("no overlap: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"fact":"a","value":"b"}` + "\n" + `{"case":"4x2-price-full","time_us":5,"density":0.1}`))
	f.Add([]byte(`{"case":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		if page(r) == "" {
			t.Fatal("an empty page")
		}
	})
}
