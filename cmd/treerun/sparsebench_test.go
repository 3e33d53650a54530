//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// For sparse calls bench prints the chosen form, the density, and the predicted time of every form
// that can be chosen: with -v on stderr, once per choice, and in the table.
func TestBenchSaysChoice(t *testing.T) {
	testutil.NotUnderRace(t, "package bench has tests of its own")
	l := startTreerun(t, nil, "bench", "-np", "2", "-v", "--wide", "--collective", "sparse-allreduce", "-b", "64K",
		"-e", "256K", "-f", "4", "--density", ".02", "--overlap", "full", "-i", "3", "-w", "1", "--max-seconds", "20")
	l.checkEnd(0)
	report := l.stderr.String()
	for _, elements := range []string{"16384", "65536"} {
		prefix := "sparse AllReduce of " + elements + " float32, sum, blocks of 256: "
		lines := 0
		for line := range strings.Lines(report) {
			if !strings.Contains(line, prefix) {
				continue
			}
			lines++
			for _, want := range []string{"of the blocks are not zero", "with those of all ranks", "trees would take",
				"shared would take", "dense would take"} {
				if !strings.Contains(line, want) {
					t.Errorf("%q lacks %q", line, want)
				}
			}
		}
		if lines == 0 {
			t.Errorf("no line is about %s elements:\n%s", elements, report)
		}
	}
	rows := 0
	for _, line := range l.output {
		if !strings.Contains(line, "full overlap") {
			continue
		}
		rows++
		for _, want := range []string{"density 0.02", "% in union", "; predicted trees ", ", shared ", ", dense "} {
			if !strings.Contains(line, want) {
				t.Errorf("%q lacks %q", line, want)
			}
		}
	}
	if rows != 2 {
		t.Errorf("%d rows, want 2:\n%s", rows, strings.Join(l.output, "\n"))
	}
}
