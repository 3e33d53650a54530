package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/scripts/internal/results"
)

// recorded writes lines of a record: part rep np op bytes who value.
func recorded(lines ...string) []byte {
	var b strings.Builder
	b.WriteString("# machine\t2 cores\n")
	for _, l := range lines {
		f := strings.Fields(l)
		for len(f) < 10 {
			f = append(f, []string{"0.01", "direct", "0.5"}[len(f)-7])
		}
		b.WriteString(strings.Join(f, "\t") + "\n")
	}
	return []byte(b.String())
}

func parsed(t *testing.T, lines ...string) record {
	t.Helper()
	r, err := parse(recorded(lines...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The median over repetitions counts, and the ratio is that of the best peer.
func TestSweep(t *testing.T) {
	r := parsed(t,
		"sweep 1 2 allreduce 8 treerun 1", "sweep 2 2 allreduce 8 treerun 100", "sweep 3 2 allreduce 8 treerun 2",
		"sweep 1 2 allreduce 8 openmpi 9", "sweep 1 2 allreduce 8 mpich 4", "sweep 1 2 allreduce 8 gloo 50",
		"sweep 1 2 allreduce 8 treerun-alloc 1",
		"sweep 1 2 allreduce 2097152 treerun 200", "sweep 1 2 allreduce 2097152 mpich 100", "sweep 1 2 broadcast 8 treerun 1")
	files, err := page(r)
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["one-host.md"])
	for _, want := range []string{
		"| 8 B | 2 | direct | 9 | 4 | 50 | 2.00 | 1 | 4.00 |",
		"| 2 MiB | 200 | direct | - | 100 | - | **0.50** | - | - |",
		"Geometric mean of the ratios: 1.00; of Alloc: 4.00; from 1 MiB up: 0.50, least 0.50. Slower than the best peer at: 2 MiB.",
		"| machine | 2 cores |",
		"Not measured: `scripts/one-host.sh settings` adds it.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	for _, name := range []string{"one-host-allreduce.svg", "one-host-broadcast.svg"} {
		wellFormed(t, name, files[name])
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// The bar is the best of all settings and all defaults; treerun's time is that
// of the same minutes.
func TestSettings(t *testing.T) {
	files, err := page(parsed(t,
		"sweep 1 4 allreduce 8 treerun 1", "sweep 1 4 allreduce 8 openmpi 6", "sweep 1 4 allreduce 512 openmpi 6",
		"settings 1 4 allreduce 8 treerun 2", "settings 1 4 allreduce 8 openmpi:ring 4", "settings 1 4 allreduce 8 gloo:hd 5",
		"settings 1 4 allreduce 512 treerun 8", "settings 1 4 allreduce 512 openmpi:ring 7"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["one-host.md"])
	for _, want := range []string{"| 8 B | 2 | 4 | openmpi:ring | 2.00 |", "| 512 B | 8 | 6 | openmpi | **0.75** |", "Below 0.9 at: 512 B."} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

// What facts are known of one machine: two ranks, 256 MiB, a sum at 16 to 28
// GB/s and a copy at 22 to 39 take 17 to 29 ms.
func TestBounds(t *testing.T) {
	const bytes = 256 << 20
	for _, c := range []struct{ copying, sum, want float64 }{{22, 16, 29}, {39, 28, 16.5}} {
		if _, mix := bounds("allreduce", 2, bytes, c.copying, c.sum); math.Abs(mix-c.want) > 0.5 {
			t.Errorf("copy %g, sum %g: %.1f ms, want about %g", c.copying, c.sum, mix, c.want)
		}
	}
	if leastMs, mix := bounds("broadcast", 2, 1e9, 10, 1); leastMs != 100 || mix != 100 {
		t.Errorf("broadcast of 1 GB at 10 GB/s: %g and %g ms, want 100", leastMs, mix)
	}
}

func TestRate(t *testing.T) {
	r := parsed(t, "membw 1 2 memcpy 16777216 machine 40", "membw 1 2 memcpy 67108864 machine 10")
	for bytes, want := range map[int64]float64{8: 40, 16 << 20: 40, 32 << 20: 20, 64 << 20: 10, 256 << 20: 10} {
		if got := r.rate("memcpy", bytes); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d bytes: %g GB/s, want %g", bytes, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		"sweep", "sweep 1 0 allreduce 8 treerun 1", "sweep 1 2 allreduce -8 treerun 1", "sweep 1 2 allreduce 8 treerun NaN",
		"sweep 1 2 allreduce 8 treerun 0", "sweep 1 2 allreduce 8 treerun 1 x", "sweep 1 2 allreduce 8 treerun 1 0 plan x",
	} {
		text := strings.Join(strings.Fields(line), "\t")
		for n := strings.Count(text, "\t"); n > 4 && n < 9; n++ {
			text += "\t" + []string{"0", "-", "-"}[n-6]
		}
		if _, err := parse([]byte("# begun\tnow\n" + text + "\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: error %v, want one that names line 2", text, err)
		}
	}
	if _, err := page(record{&results.Record{}}); err == nil {
		t.Error("a page of nothing")
	}
}

// FuzzParse: any record is refused or gives a page.
func FuzzParse(f *testing.F) {
	f.Add(recorded("sweep 1 2 allreduce 8 treerun 1", "others 1 2 reduce 8 mpich 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil || len(r.Figures) == 0 {
			return
		}
		for _, v := range r.Figures {
			if v.NP < 1 || v.Bytes < 0 || !(v.Value > 0) {
				t.Fatalf("accepted %+v", v)
			}
		}
		if len(r.Figures) > 20 {
			return // plots take their time
		}
		if _, err := page(r); err != nil {
			t.Fatal(err)
		}
	})
}
