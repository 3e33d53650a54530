// Package examples_test runs examples as a reader would: with the command.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// built returns the executable of a program in a folder below this one. It is built there, since it may be a
// module of its own, and once: an executable that go run has linked is in the build cache.
func built(t *testing.T, folder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), filepath.Base(folder))
	out, err := exec.Command("go", "-C", folder, "run", "-buildvcs=false", "-exec", "cp", ".", file).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return file
}

// One rank and four print the same line, or a line of nearly the same numbers where sums have rounded terms.
func TestLaunched(t *testing.T) {
	treerun := built(t, "../cmd/treerun")
	for program, want := range map[string]struct {
		line string
		off  float64
	}{
		"heat":   {`steps=\d+ change=\d\.\d+e-07 error=(0\.00\d+) checksum=[0-9a-f]{16}`, 0},
		"kmeans": {`iterations=\d+ distance=\d+\.\d+ purity=(0\.7\d+)`, 0},
		"gomlx":  {`loss=(0\.0\d+) accuracy=(0\.9\d+)`, 0.02},
	} {
		t.Run(program, func(t *testing.T) {
			needModules(t, program)
			file := built(t, program)
			var one []string
			for _, np := range []int{1, 4} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // against a hang
				defer cancel()
				cmd := exec.CommandContext(ctx, treerun, "-np", fmt.Sprint(np), "--tag-output=false", file)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("np %d: %v\n%s", np, err, out)
				}
				got := regexp.MustCompile("^" + want.line + "\n$").FindStringSubmatch(string(out))
				if one == nil {
					one = got
				}
				if got == nil || want.off == 0 && got[0] != one[0] || !near(got[1:], one[1:], want.off) {
					t.Errorf("np %d prints %q, one rank %q", np, out, one)
				}
			}
		})
	}
}

// Invalid arguments are an error that describes the valid ones.
func TestArguments(t *testing.T) {
	programs := map[string]string{"heat": built(t, "heat"), "kmeans": built(t, "kmeans")}
	for line, want := range map[string]string{
		"heat -n 0": "0 rows for a grid of [1 1] ranks", "heat -tolerance 0": "want a row for each, and 1e-15 or more",
		"heat -tolerance NaN": "tolerance NaN", "kmeans -k 0": "want 1 to 1437", "kmeans -k 1438": "-k is 1438",
	} {
		args := strings.Fields(line)
		out, err := exec.Command(programs[args[0]], args[1:]...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s, want %q", line, err, out, want)
		}
	}
}

// needModules skips the test if the modules of a program are not on this machine and cannot be downloaded.
func needModules(t *testing.T, program string) {
	t.Helper()
	list := exec.Command("go", "-C", program, "list", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", ".")
	out, err := list.CombinedOutput()
	if err != nil {
		testutil.Need(t, testutil.Modules, fmt.Errorf("%w\n%s", err, out))
	}
}

// near reports whether numbers differ by at most a share of off.
func near(got, want []string, off float64) bool {
	for i := range got {
		a, err1 := strconv.ParseFloat(got[i], 64)
		b, err2 := strconv.ParseFloat(want[i], 64)
		if err1 != nil || err2 != nil || math.Abs(a-b) > off*b {
			return false
		}
	}
	return true
}

// The spans of a rank have its steps, and each call within its step.
func TestOpenTelemetry(t *testing.T) {
	needModules(t, "opentelemetry")
	treerun, program, folder := built(t, "../cmd/treerun"), built(t, "opentelemetry"), t.TempDir()
	args := []string{"-np", "2", "--tag-output=false", program, "--steps", "5", "--spans", folder}
	out, err := exec.Command(treerun, args...).Output()
	if err != nil || string(out) != "sum=1 calls=5\n" {
		t.Fatalf("%v: %q", err, out)
	}
	for rank := range 2 {
		text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("rank-%d.json", rank)))
		if err != nil {
			t.Fatal(err)
		}
		type span struct {
			Name                string
			SpanContext, Parent struct{ SpanID string }
			StartTime, EndTime  time.Time
		}
		steps, calls := map[string]span{}, []span(nil)
		for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
			var s span
			if err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			if s.Name == "step" {
				steps[s.SpanContext.SpanID] = s
			} else {
				calls = append(calls, s)
			}
		}
		within := 0
		for _, s := range calls {
			if in, ok := steps[s.Parent.SpanID]; ok && s.Name == "AllReduce" && !s.StartTime.Before(in.StartTime) {
				within++
			}
		}
		if len(steps) != 5 || within < 5 {
			t.Errorf("rank %d: %d steps, %d calls, %d of them within a step", rank, len(steps), len(calls), within)
		}
	}
}
