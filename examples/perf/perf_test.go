package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("-o allreduce,broadcast -b 8 -e 64M -f 8 -T 0.5 -t double -m stream -i -c=false"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.ops, []string{"allreduce", "broadcast"}) || o.smallest != 8 || o.largest != 64<<20 ||
		o.factor != 8 || o.budget != 0.5 || o.typ != "double" || !o.stream || !o.inPlace || o.check {
		t.Errorf("got %+v", *o)
	}
	for _, bad := range []string{
		"-o gather", "-b 0", "-b x", "-b 1MK", "-b NaN", "-e 1e99", "-b 2M -e 1M", "-f 1", "-f NaN", "-n 0", "-w -1", "-T -1",
		"-t half", "-m fast", "surplus", "--nothing",
	} {
		if _, err := parse(strings.Fields(bad)); err == nil {
			t.Errorf("parse(%q) found nothing wrong", bad)
		}
	}
}

func TestSizes(t *testing.T) {
	if got := sizes(8, 4096, 8); !slices.Equal(got, []int64{8, 64, 512, 4096}) {
		t.Errorf("got %v", got)
	}
	if got := sizes(8, 100, 8); !slices.Equal(got, []int64{8, 64}) {
		t.Errorf("got %v", got)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		want, least     int
		budget, seconds float64
		iters           int
	}{
		{50, 3, 2, 0.01, 50},
		{50, 3, 2, 0.1, 20},
		{50, 3, 2, 5, 3},
		{2, 3, 2, 5, 2},   // never more than asked for
		{50, 3, 0, 5, 50}, // no limit
		{50, 3, 2, 0, 50}, // too quick to see
	} {
		if got := fit(c.want, c.least, c.budget, c.seconds); got != c.iters {
			t.Errorf("fit(%d, %d, %g, %g) = %d, want %d", c.want, c.least, c.budget, c.seconds, got, c.iters)
		}
	}
}

func TestMedian(t *testing.T) {
	if m := medianOf([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median of 3, 1, 2 is %g", m)
	}
	if m := medianOf([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median of 4, 1, 2, 3 is %g", m)
	}
}

// A single wrong element is counted, wherever it is, and so is a shift by one.
func TestDifferences(t *testing.T) {
	want := func(i int) int { return total(4, i) }
	buf := make([]float32, 100)
	for i := range buf {
		for rank := range 4 {
			buf[i] += float32(input(rank, i))
		}
	}
	if n := differences(buf, want); n != 0 {
		t.Fatalf("%d of the right elements count as wrong", n)
	}
	for i := range buf {
		buf[i]++
		if n := differences(buf, want); n != 1 {
			t.Errorf("element %d is wrong, counted %d", i, n)
		}
		buf[i]--
	}
	if n := differences(buf[1:], want); n == 0 {
		t.Error("a shift by one was not seen")
	}
	fill(buf, 3)
	if n := differences(buf, func(i int) int { return input(3, i) }); n != 0 {
		t.Errorf("fill wrote %d wrong elements", n)
	}
}

func TestRow(t *testing.T) {
	r := row{op: "allreduce", typ: "float", np: 4, count: 262144, bytes: 1 << 20, iters: 50, median: 200e-6, least: 150e-6, checked: true}
	const want = "  allreduce          1048576       262144   float      50       200.00       150.00     5.2429     7.8643      0"
	if got := r.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	r.checked = false
	if !strings.HasSuffix(r.String(), "   N/A") {
		t.Errorf("an unchecked row ends in %q", r.String())
	}
}
