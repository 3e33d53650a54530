package main

import (
	"bytes"
	"os"
	"testing"
)

// The page in docs/results is the one that these sources write.
func TestPageIsCurrent(t *testing.T) {
	want, err := page(networks())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/results/" + pageName)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is another page (%v): write it with go run ./scripts/packing page docs/results", pageName, err)
	}
}

// What the command takes, and what not.
func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"page"}, {"graph", "nowhere"}, {"draw", "mesh4"}, {"page", "/dev/null"}} {
		if run(args) == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
