package results

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	got := strings.Join([]string{Size(8), Size(1536), Size(2 << 10), Size(256 << 20), Number(0.1234), Number(1234.5), Number(math.NaN()), Below(0.999, 1), Below(1, 1), Below(math.NaN(), 1)}, " ")
	if want := "8 B 1536 B 2 KiB 256 MiB 0.123 1234 - **1.00** 1.00 -"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is written is read again.
func TestLine(t *testing.T) {
	figure := Figure{Part: "even", Rep: 2, NP: 4, Op: "allreduce", Bytes: 8, Who: "openmpi:ring", Value: 1.25, Away: 0.5, Plan: "-", Share: 0.25}
	record, err := Parse([]byte(Fact{"machine", "two\ncores"}.Line() + strings.TrimSuffix(figure.Line(), "\n") + "\t0.25\n"))
	want := &Record{Figures: []Figure{figure}, Facts: []Fact{{"machine", "two cores"}}}
	if err != nil || !reflect.DeepEqual(record, want) {
		t.Errorf("%+v, %v; want %+v", record, err, want)
	}
}

// A median, means and the least of nothing are not known, and say so.
func TestUnknown(t *testing.T) {
	least, whose := Least([]string{"a", "b", "c"}, func(name string) float64 { return map[string]float64{"a": math.NaN(), "b": 2, "c": 2}[name] })
	_, nobody := Least(nil, nil)
	got := fmt.Sprintln(Median(nil), Median([]float64{4, 1, 2}), Median([]float64{4, 1}), Geometric([]float64{math.NaN()}), Geometric([]float64{2, math.NaN(), 8}), least, whose, nobody == "")
	if want := "NaN 2 2.5 NaN 4 2 b true\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMachine(t *testing.T) {
	w := StartWatch()
	facts := Machine("v1")
	if len(facts) != 3 || !strings.HasPrefix(facts[1].Value, "Linux ") || !strings.HasPrefix(facts[2].Value, "v1, go") {
		t.Errorf("%q", facts)
	}
	if away := w.Away(); !(away >= 0) || w.Elapsed() <= 0 {
		t.Errorf("others used %v cores", away)
	}
}
