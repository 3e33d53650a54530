package numbers

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 8, 2}, 3}} {
		before := slices.Clone(c.values)
		if got := Median(c.values); got != c.want || !slices.Equal(before, c.values) {
			t.Errorf("%v: %g, want %g; it leaves %v", before, got, c.want, c.values)
		}
	}
}

func TestDigits(t *testing.T) {
	got := fmt.Sprint(Digits(1.23456), Digits(99951), Digits(0), Digits(-0.0012349), Digits(math.Inf(1)))
	if want := "1.23 100000 0 -0.00123 +Inf"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCount(t *testing.T) {
	got := fmt.Sprint(Count(0, "rank"), ", ", Count(1, "process"), ", ", Count(2, "process"), ", ", Count(-1, "link"),
		", ", Plural(1, "node"), ", ", Plural(12, "node"))
	if want := "0 ranks, 1 process, 2 processes, -1 links, node, nodes"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBytes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 8: "8 B", 1000: "1000 B", 64 << 20: "64 MiB", 1536: "1536 B",
		3 << 10: "3 KiB", 1 << 30: "1 GiB", 1 << 41: "2 TiB"} {
		if got := Bytes(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"8": 8, "0": 0, "64k": 64 << 10, "1.5M": 3 << 19, "64MB": 64 << 20,
		"64MiB": 64 << 20, "2gib": 2 << 30, "16T": MaxBytes} {
		if got, ok := ParseBytes(text); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "B", "K", "KiB", "64B", "64iB", "64Ki", "64MBB", "-1", "17T",
		"1.3", "inf", "NaN", "64 KiB"} {
		if got, ok := ParseBytes(text); ok {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "one": {"one"}, "äöü äöü  a": {"äöü äöü", "a"}, "a rather longword b": {"a", "rather", "longword", "b"},
	} {
		if got := Wrapped(text, 7); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
