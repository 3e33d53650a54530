package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sim/figures"
)

// The committed page is what the simulator says today, and every picture it
// shows is there. When it is not, run the command that the page names.
func TestCommittedReport(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "..", "docs", "results")
	all, err := figures.All()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(filepath.Join(folder, "simulated.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got := page(all); got != string(committed) {
		t.Error("docs/results/simulated.md is not what the simulator says; write it anew")
	}
	for i := range all {
		if _, err := os.Stat(filepath.Join(folder, svgName(&all[i]))); err != nil {
			t.Error(err)
		}
	}
}

// A plot is well-formed, names its axes and curves, and has a sign for every
// point and crossing.
func TestDrawn(t *testing.T) {
	f := figures.Figure{
		Name: "made-up", Title: "a title", XLabel: "along", YLabel: "upwards",
		Series: []figures.Series{
			{Name: "falls", Points: []figures.Point{{X: 1, Y: 100}, {X: 10, Y: 10}, {X: 100, Y: 1}}},
			{Name: "rises", Points: []figures.Point{{X: 1, Y: 1}, {X: 10, Y: 10}, {X: 100, Y: 100}}},
		},
		Crossings: []figures.Crossing{{Below: "falls", Above: "rises", X: 10}},
	}
	svg, err := drawn(&f)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a title", "along", "upwards", "falls", "rises", "where curves cross"} {
		if !strings.Contains(string(svg), ">"+want+"<") {
			t.Errorf("the plot does not say %q", want)
		}
	}
	again, err := drawn(&f)
	if err != nil || string(again) != string(svg) {
		t.Errorf("the same figure is drawn differently: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0.0123: "0.0123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 12345: "12,345"} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{1: "1", 20: "20", 1e3: "1k", 5e5: "500k", 1e7: "10M", 0.1: "0.1"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
	points := []figures.Point{{X: 1, Y: 1}, {X: 100, Y: 10000}}
	if got := at(points, 10); got < 99.99 || got > 100.01 {
		t.Errorf("between (1, 1) and (100, 10000) lies (10, %v), want 100", got)
	}
}
