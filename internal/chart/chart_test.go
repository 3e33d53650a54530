package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// Labels are few enough to be read, and at sizes that people write.
func TestTicks(t *testing.T) {
	for _, c := range []struct{ least, most float64 }{{8, 64}, {8, 256 << 20}, {1, 1 << 40}, {1000, 1e6}} {
		labels := 0
		for _, tick := range powers(c.least, c.most) {
			if tick.Value < c.least-1e-9 || tick.Value > c.most+1e-9 ||
				math.Log2(tick.Value) != math.Trunc(math.Log2(tick.Value)) {
				t.Errorf("from %g to %g: a tick at %g", c.least, c.most, tick.Value)
			}
			if tick.Label != "" {
				labels++
			}
		}
		if labels < 3 || labels > 10 {
			t.Errorf("from %g to %g: %d labels", c.least, c.most, labels)
		}
	}
	labels := ""
	for _, tick := range decades(0.3, 12) {
		if tick.Label != "" {
			labels += fmt.Sprint(tick.Label, " ")
		}
	}
	if labels != "0.5 1 2 5 10 " {
		t.Errorf("labels from 0.3 to 12: %s", labels)
	}
}

// Labels have four digits at most.
func TestShortNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1 + 0.2: "0.3", 999: "999", 1000: "1k", 12346: "12.35k", 5e6: "5M"} {
		if got := shortNumber(v, 1000, "kMGT"); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// A chart is well-formed, names its axes and curves, and is the same every time.
func TestSVG(t *testing.T) {
	falls, rises := []Point{{X: 1, Y: 100}, {X: 100, Y: 1}}, []Point{{X: 1, Y: 1}, {X: 100, Y: 100}}
	panel := Panel{Title: "a title", X: "along", Y: "upwards", Curves: []Curve{{Name: "falls", Points: falls},
		{Name: "rises", Points: rises}, {Name: "limit", Limit: true, Points: rises}, {Name: "nowhere"}}}
	svg, err := SVG("above all", 560, 360, []Panel{panel}, []Panel{{Linear: true}})
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"above all", "a title", "along", "upwards", "falls", "rises", "limit"} {
		if !strings.Contains(string(svg), ">"+want+"<") {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if strings.Contains(string(svg), "nowhere") {
		t.Error("a curve without points has a name")
	}
	again, err := SVG("above all", 560, 360, []Panel{panel}, []Panel{{Linear: true}})
	if err != nil || string(again) != string(svg) {
		t.Errorf("the same chart is drawn differently: %v", err)
	}
}

// A point that has no place on a logarithmic axis gives an error, not endless ticks.
func TestNoPlace(t *testing.T) {
	for _, at := range []Point{{X: 0, Y: 1}, {X: 1, Y: 0}, {X: math.NaN(), Y: 1}} {
		panel := Panel{Sizes: true, Curves: []Curve{{Name: "odd", Points: []Point{at}}}}
		if _, err := SVG("", 560, 360, []Panel{panel}); err == nil || !strings.Contains(err.Error(), "curve of odd: ") {
			t.Errorf("%v: %v", at, err)
		}
	}
}
