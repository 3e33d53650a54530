package main

import (
	"os"
	"strings"
	"testing"
)

// What was measured stands on the page; what was not is said not to be.
func TestPage(t *testing.T) {
	r := &results{Date: "2026-01-02", Driver: "570.1, CUDA 12.8", GPUs: []string{"NVIDIA H200, 141 GiB"}, CopyGBs: 4000,
		Steps:   []step{{Name: "kernels", OK: true, Text: "many"}, {Name: "bench", Text: "wrong element"}},
		Kernels: []kernelRate{{"copy", 3900, 0.975}},
		Streams: &times{Ranks: 4, Bytes: 1 << 28, MedianUs: 600}, FloorUs: 537, StreamsShare: 0.895,
		Processes: &times{Ranks: 4, MedianUs: 2000}, Latency: &times{Ranks: 2, MedianUs: 31.5}}
	text := string(pageOf(r))
	for _, want := range []string{"2026-01-02, driver 570.1", "NVIDIA H200", "| bench | **failed** | wrong element |", "| copy | 3900 | 0.97 |", "600 us, 0.90 of the floor", "31.5 us"} {
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
	for op, want := range map[string]int64{"sum": 1 + 2 + 3, "prod": 2 * 1 * 1, "min": 0, "max": 7, "avg": 1, "premul": 1 + 2*2 + 3*3} {
		if got := combined(op, 0, 3); got != want {
			t.Errorf("%s of 3 ranks: %d, want %d", op, got, want)
		}
	}
	again := (2*6 + 1) * len(types) * 2 // of the one long count, in registered memory
	if n := len(allCases(8)); n != (3*6+2)*len(types)*len(counts)*2+again {
		t.Errorf("%d cases", n)
	}
}
