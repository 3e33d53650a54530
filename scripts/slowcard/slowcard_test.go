package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/treerun/treerun/scripts/internal/results"
	"github.com/treerun/treerun/topo/pack"
)

const folder = "../../docs/results"

// The page in docs/results is the one that the record beside it makes, where
// treerun plan reaches the bound, and a ring what its formula says.
func TestPageIsCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, recordName))
	if err != nil {
		t.Fatal(err)
	}
	r, err := results.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []planned
	for n := 8; n <= 64; n *= 2 {
		for _, share := range shares {
			all = append(all, planned{n, share, bound(n, share), bound(n, share), ring(n, share)})
		}
	}
	want, err := page(all, r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, pageName))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is another page (%v): write it with scripts/slow-card.sh page", pageName, err)
	}
}

// The closed form is the bound that the packing proves, and is reached.
func TestBound(t *testing.T) {
	for _, n := range []int{8, 16} {
		for _, share := range shares {
			r, err := pack.Pack(cards(n, share), pack.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := bound(n, share) * cardRate
			if math.Abs(r.Bound.Rate-want) > 1e-6*want || r.Rate < 0.999*want {
				t.Errorf("%d hosts, %v: %v GB/s of a bound of %v, want %v", n, share, r.Rate, r.Bound.Rate, want)
			}
		}
	}
}

// What is wrong on the command line, or in a record, is an error.
func TestRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"page"}, {"page", folder}, {"measure", "-treerun", "x", "-rate", "0", "y"},
		{"graph", "8", "0"}, {"graph", "x", "1"}} {
		if run(args) == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if _, err := page(nil, &results.Record{}); err == nil {
		t.Error("an empty record makes a page")
	}
}
