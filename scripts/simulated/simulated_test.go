package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The committed page is what the committed numbers say, and every picture it shows is
// there. When it is not, run the command that the page names.
func TestCommittedReport(t *testing.T) {
	root := filepath.Join("..", "..")
	text, all, err := made(root)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "docs", "results")
	committed, err := os.ReadFile(filepath.Join(folder, "simulated.md"))
	if err != nil {
		t.Fatal(err)
	}
	if text != string(committed) || strings.Contains(text, "NaN") {
		t.Error("docs/results/simulated.md is not what the numbers say; write it anew")
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
	f := Figure{
		Name: "made-up", Title: "a title", XLabel: "along", YLabel: "upwards",
		Series: []Series{
			{Name: "falls", Points: []Point{{X: 1, Y: 100}, {X: 10, Y: 10}, {X: 100, Y: 1}}},
			{Name: "rises", Points: []Point{{X: 1, Y: 1}, {X: 10, Y: 10}, {X: 100, Y: 100}}},
		},
		Crossings: []Crossing{{Below: "falls", Above: "rises", X: 10}},
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
	for v, want := range map[float64]string{0.0123: "0.0123", 1.234: "1.23", 12.34: "12.3", 123.4: "123",
		12345: "12,345"} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{1: "1", 20: "20", 1e3: "1k", 5e5: "500k", 1e7: "10M", 0.1: "0.1"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
	points := []Point{{X: 1, Y: 1}, {X: 100, Y: 10000}}
	if got := at(points, 10); got < 99.99 || got > 100.01 {
		t.Errorf("between (1, 1) and (100, 10000) lies (10, %v), want 100", got)
	}
}

func TestCrossing(t *testing.T) {
	curve := func(name string, y ...float64) Series {
		s := Series{Name: name}
		for i, v := range y {
			s.Points = append(s.Points, Point{math.Pow(10, float64(i)), v})
		}
		return s
	}
	for _, c := range []struct {
		a, b Series
		want []Crossing
	}{
		{curve("a", 1, 1), curve("b", 2, 2), nil},
		{curve("a", 1, 1), curve("b", 10, 0.1), []Crossing{{"b", "a", math.Sqrt(10)}}},
		{curve("a", 10, 0.1, 10), curve("b", 1, 1, 1), []Crossing{{"a", "b", math.Sqrt(10)}, {"b", "a",
			10 * math.Sqrt(10)}}},
		{curve("a", 2, 1, 1, 1), curve("b", 1, 1, 1, 2), []Crossing{{"a", "b", math.Pow(10, 1.5)}}},
		{curve("a", 1, 1, 1), curve("b", 2, 1, 2), nil},
	} {
		got := crossings([]Series{c.a, c.b})
		for i := range got {
			if i < len(c.want) && math.Abs(got[i].X-c.want[i].X) < 1e-9*got[i].X {
				got[i].X = c.want[i].X
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v and %v: %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 999: "999", 1000: "1,000", 24576: "24,576",
		1234567.4: "1,234,567"} {
		if got := Grouped(v); got != want {
			t.Errorf("Grouped(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{6.234: "6.23", 572339: "572,000", 2866122: "2,870,000", 1000: "1,000"} {
		if got := About(v); got != want {
			t.Errorf("About(%v) = %s, want %s", v, got, want)
		}
	}
}
