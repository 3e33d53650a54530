package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// What was measured stands on the page; what was not is said not to be.
func TestPage(t *testing.T) {
	r := &results{Date: "2026-01-02", Driver: "570.1, CUDA 12.8", GPUs: []string{"NVIDIA H200, 141 GiB"}, CopyGBs: 4000,
		Steps:     []step{{Name: "kernels", OK: true, Text: "many"}, {Name: "bench", Text: "wrong | \nelement  1"}},
		Kernels:   []kernelRate{{"copy", 3900, 0.975}},
		Processes: &times{Ranks: 4, MedianUs: 2000}, Latency: &times{Ranks: 2, MedianUs: 31.5}}
	text := string(pageOf(r))
	for _, want := range []string{"2026-01-02, driver 570.1", "NVIDIA H200",
		"| bench | **failed** | wrong \\|<br>element 1 |", "| copy | 3900 | 0.97 |", "4 processes: 2000 us", "31.5 us"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "not been run") {
		t.Error("a page of results says that there are none")
	}
	kept, err := os.ReadFile("../../docs/results/h200.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(kept), "not been run") && string(kept) != string(pageOf(nil)) {
		t.Error("docs/results/h200.md is not what gpucheck page makes without results")
	}
}

// The oracle: results of a few ranks, by hand.
func TestOracle(t *testing.T) {
	for op, want := range map[string]int64{"sum": 1 + 2 + 3, "prod": 2 * 1 * 1, "min": 0, "max": 7, "avg": 1,
		"premul": 1 + 2*2 + 3*3} {
		if got := combined(op, 0, 3); got != want {
			t.Errorf("%s of 3 ranks: %d, want %d", op, got, want)
		}
	}
	again := (2*6 + 1) * len(types) * 2 // of the one long count, in registered memory
	if n := len(allCases(8)); n != (3*6+2)*len(types)*len(counts)*2+again {
		t.Errorf("%d cases", n)
	}
}

// A step that hangs, one that fails and one for which there is no time left do not keep
// the others from being run and noted; what the hanging one writes is not looked at.
func TestStepsThatDoNotEnd(t *testing.T) {
	k := &checker{stepMost: 1100 * time.Millisecond, grace: 10 * time.Millisecond, until: time.Now().Add(time.Hour)}
	release, late := make(chan struct{}), make(chan struct{})
	k.step("hangs", func(k *checker) (string, error) {
		defer close(late)
		<-release
		k.CopyGBs = 1
		return "", nil
	})
	close(release)
	<-late
	k.step("fails", func(*checker) (string, error) { return "", errors.New("wrong element") })
	k.step("works", func(k *checker) (string, error) { k.KillMs = 2; return "fine", nil })
	k.until = time.Now()
	k.step("comes late", func(*checker) (string, error) { return "never", nil })
	var got []string
	for _, s := range k.Steps {
		got = append(got, fmt.Sprint(s.Name, " ", s.OK, " ", strings.Fields(s.Text)[0]))
	}
	if want := "hangs false it,fails false wrong,works true fine,comes late false not"; strings.Join(got, ",") != want ||
		k.CopyGBs != 0 || k.KillMs != 2 {
		t.Errorf("%q, want %q; %+v", got, want, k.results)
	}
}

// Losses are read as examples/train writes them, and compared epoch by epoch.
func TestLosses(t *testing.T) {
	list, err := losses("1 2.5 0.1\n2 1.25 0.5\n")
	if err != nil || len(list) != 2 || list[1] != 1.25 {
		t.Fatal(list, err)
	}
	for _, text := range []string{"", "1\n", "a b c\n"} {
		if list, err := losses(text); err == nil {
			t.Errorf("%q: %v", text, list)
		}
	}
	if err := sameCurve(list, []float64{2.51, 1.24}); err != nil {
		t.Error(err)
	}
	for _, other := range [][]float64{{2.5}, {2.5, 1.5}, {2.5, math.NaN()}} {
		if sameCurve(list, other) == nil {
			t.Errorf("%v is taken for %v", other, list)
		}
	}
}
