package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/scripts/internal/results"
)

func close2(a, b float64) bool { return math.Abs(a-b) <= 0.01*math.Abs(b) }

// What is known of the networks from counting by hand.
func TestBounds(t *testing.T) {
	even, uneven := []float64{500, 500, 500, 500}, []float64{800, 400, 200, 100}
	mesh := [][]float64{{0, 800, 400, 200}, {800, 0, 100, 400}, {400, 100, 0, 800}, {200, 400, 800, 0}}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"AllReduce, even: n/(2(n-1)) of a card", cardsBound("allreduce", even), 500 * 4 / 6.0},
		{"Broadcast, even: a card", cardsBound("broadcast", even), 500},
		{"AllReduce, uneven: the slowest card", cardsBound("allreduce", uneven), 100},
		{"AllReduce, one slow sender of three", cardsBound("allreduce", []float64{90, 90, 120}), 75},
		{"AllReduce, mesh: 5400 of directed links over 6 crossings", packingBound(mesh), 900},
		{"AllReduce, a line: its slowest link", packingBound([][]float64{{0, 5, 0}, {5, 0, 3}, {0, 3, 0}}), 3},
		{"Broadcast, mesh: from hosts 0 and 1 to 2 and 3", cutBound(mesh), 1100},
		{"Broadcast, a line", cutBound([][]float64{{0, 5, 0}, {1, 0, 3}, {0, 3, 0}}), 3},
	} {
		if !close2(c.got, c.want) {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
	if v := apart([]float64{1, 2.2}, []float64{1, 2}); !close2(v, 0.1) || !math.IsInf(apart(nil, []float64{1}), 1) {
		t.Errorf("largest difference %g, want 0.1", v)
	}
}

// recorded are lines of a record: network rep np op bytes who value, in which
// the rest is filled in.
func recorded(lines ...string) []byte {
	var b strings.Builder
	b.WriteString("# machine\t2 cores\n")
	for _, l := range lines {
		f := strings.Fields(l)
		for len(f) < 9 {
			f = append(f, []string{"0.01", "plan"}[len(f)-7])
		}
		b.WriteString(strings.Join(f, "\t") + "\n")
	}
	return []byte(b.String())
}

func TestPage(t *testing.T) {
	lines := []string{
		"even 1 4 flow-0-1 0 tcp 480",
		"even 1 4 allreduce 4194304 treerun 110000", "even 2 4 allreduce 4194304 treerun 900000", "even 3 4 allreduce 4194304 treerun 108000",
		"even 1 4 allreduce 4194304 openmpi 160000", "even 1 4 allreduce 4194304 gloo:hd 120000", "even 1 4 allreduce 8 treerun 90", "even 1 4 allreduce 8 openmpi 60",
		"start 1 4 start 0 treerun 100", "start 1 4 start 0 openmpi 240", "start 1 4 start 0 mpich 90",
	}
	for i := range hosts {
		for j := range hosts {
			if i != j {
				lines = append(lines, fmt.Sprintf("mesh 1 4 flow-%d-%d 0 tcp %d", i, j, 100))
			}
		}
	}
	lines = append(lines, "mesh 1 4 broadcast 16777216 treerun 500000")
	r, err := parse(append(recorded(lines...), "# training\tdigits: the same\n"...))
	if err != nil {
		t.Fatal(err)
	}
	files, err := page(r)
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[pageName])
	for _, want := range []string{
		// 4 MiB in 110 ms are 305 Mbit/s of 320, which is 480 * 4/6.
		"| even | allreduce | 4 MiB | 305 | 320 | 0.95 | 0.95 | 280 Gloo, hd | 1.09 |",
		"| 8 B | 90 | 60 | - | plan | **0.67** | 0.711 |  |",
		"| mesh | broadcast | 16 MiB | 268 | 300 | **0.89** | 0.90 | - | - |",
		"| 4 | 100 | 240 | 90 | 2.40 |",
		"with the same ranks on four hosts and on one: digits: the same.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(string(files[plotName]))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := page(record{&results.Record{}}); err == nil {
		t.Error("a page of nothing")
	}
}

func TestLosses(t *testing.T) {
	if got, err := losses("# epoch loss accuracy\n1 0.5 0.9\n2 0.25 0.95\n"); err != nil || fmt.Sprint(got) != "[0.5 0.25]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "1 x 2\n"} {
		if _, err := losses(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"even 0 4 allreduce 8 treerun 1", "even 1 4 allreduce -8 treerun 1", "even 1 4 allreduce 8 treerun NaN", "even 1 4 allreduce 8 treerun 1 x"} {
		if _, err := parse(recorded(line)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := parse([]byte("even\t1\n")); err == nil {
		t.Error("two columns")
	}
}

// Every network is within what hosts can be made with, and has a chapter.
func TestNetworks(t *testing.T) {
	for _, n := range quickly(networks()) {
		found := false
		for _, c := range chapters {
			found = found || c.network == n.name
		}
		if !found || len(n.groups) == 0 {
			t.Errorf("network %s: %d groups, chapter %v", n.name, len(n.groups), found)
		}
		for _, g := range n.groups {
			if g.begin > g.end || g.factor < 2 || g.perHost < 1 || len(g.who) == 0 {
				t.Errorf("%s: %+v", n.name, g)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(recorded("even 1 4 allreduce 8 treerun 1", "mesh 1 4 flow-0-1 0 tcp 5"))
	f.Add([]byte("# a\nx\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil || len(r.Figures) == 0 || len(r.Figures) > 20 {
			return
		}
		for _, v := range r.Figures {
			if v.NP < 1 || v.Bytes < 0 || !(v.Value > 0) {
				t.Fatalf("accepted %+v", v)
			}
		}
		if _, err := page(r); err != nil {
			t.Fatal(err)
		}
	})
}
