package main

import (
	"bytes"
	"context"
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

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
)

// launcher runs this example on real ranks.
type launcher struct {
	dir string   // of the executables
	env []string // added to the environment
}

// Real ranks, started by the real launcher.
func TestLaunched(t *testing.T) {
	launch := build(t)
	t.Run("loss curve", func(t *testing.T) { testLossCurve(t, launch) })
	t.Run("more ranks than images", func(t *testing.T) { testMoreRanksThanImages(t, launch) })
	t.Run("errors", func(t *testing.T) { testErrors(t, launch) })
	t.Run("no GPU", func(t *testing.T) { testNoGPU(t, launch) })
}

// build compiles the launcher and this example.
func build(t *testing.T) launcher {
	t.Helper()
	dir := t.TempDir()
	for _, pkg := range []string{"cmd/treerun", "examples/train"} {
		if err := testutil.Build("github.com/treerun/treerun/"+pkg, filepath.Join(dir, filepath.Base(pkg))); err != nil {
			t.Fatal(err)
		}
	}
	return launcher{dir: dir}
}

// run runs np ranks and returns all of their output.
func (l launcher) run(np int, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // against a hang
	defer cancel()
	command := append([]string{"-np", strconv.Itoa(np), filepath.Join(l.dir, "train")}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "treerun"), command...)
	cmd.Env = append(os.Environ(), l.env...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	return text.String(), err
}

var final = regexp.MustCompile(`(?m)^(?:\[0\] )?final loss=(\d+\.\d{4}) accuracy=([01]\.\d{4}) seconds=\d+\.\d$`)

// tolerance is the relative difference that the loss of an epoch may have between
// numbers of ranks. They add up the same gradients in another order, so the
// results differ by the rounding of float32. In 180 trainings with 60 seeds
// that was 1e-7 as a rule, and 8e-6 at most, where the input of some ReLU
// rounded to the other side of zero. An error of the method is far larger: one
// image left out of one batch of each epoch makes it 5e-4 or more.
const tolerance = 1e-4

// One rank and many learn the same: the global batch is the same.
func testLossCurve(t *testing.T, launch launcher) {
	var curve []lossLine
	for _, np := range []int{1, 4, 2, 8}[:testutil.Count(2, 4)] {
		path := filepath.Join(t.TempDir(), "loss")
		output, err := launch.run(np, "--epochs", "12", "--loss-log", path)
		if err != nil {
			t.Fatalf("np %d: %v\n%s", np, err, output)
		}
		m := final.FindStringSubmatch(output)
		if m == nil || strings.Count(output, "final loss=") != 1 {
			t.Fatalf("np %d: not one final line:\n%s", np, output)
		}
		if n := strings.Count(output, "epoch "); n != 12 {
			t.Errorf("np %d: %d lines of epochs, want 12:\n%s", np, n, output)
		}
		if accuracy, err := strconv.ParseFloat(m[2], 64); err != nil || accuracy < 0.95 {
			t.Errorf("np %d: accuracy %v, want 0.95 or more", np, m[2])
		}
		got := readLossLog(t, path)
		if len(got) != 12 {
			t.Fatalf("np %d: %d lines in the loss log, want 12", np, len(got))
		}
		if last := fmt.Sprintf("%.4f", got[11].loss); last != m[1] {
			t.Errorf("np %d: final loss %s, the log has %s", np, m[1], last)
		}
		if np == 1 {
			curve = got
			continue
		}
		for i := range curve {
			if d := math.Abs(got[i].loss-curve[i].loss) / curve[i].loss; d > tolerance {
				t.Errorf("np %d, epoch %d: loss %v, with one rank %v (%.1e off)", np, i+1, got[i].loss, curve[i].loss, d)
			}
			if d := math.Abs(got[i].accuracy - curve[i].accuracy); d > 1.5/360 { // one image on the edge
				t.Errorf("np %d, epoch %d: accuracy %v, with one rank %v", np, i+1, got[i].accuracy, curve[i].accuracy)
			}
		}
	}
	if first, last := curve[0].loss, curve[len(curve)-1].loss; last > first/4 {
		t.Errorf("the loss went from %v to %v only", first, last)
	}
}

type lossLine struct{ loss, accuracy float64 }

func readLossLog(t *testing.T, path string) (lines []lossLine) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n, text := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var epoch int
		var l lossLine
		if _, err := fmt.Sscan(text, &epoch, &l.loss, &l.accuracy); err != nil || epoch != n+1 {
			t.Fatalf("line %d of the loss log is %q: %v", n+1, text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// More ranks than images in a batch: some ranks have no images, but take
// part as well.
func testMoreRanksThanImages(t *testing.T, launch launcher) {
	var curve []lossLine
	for _, np := range []int{1, 5} {
		path := filepath.Join(t.TempDir(), "loss")
		output, err := launch.run(np, "--epochs", "1", "--batch", "3", "--lr", "0.01", "--hidden", "8", "--loss-log", path)
		if err != nil {
			t.Fatalf("np %d: %v\n%s", np, err, output)
		}
		got := readLossLog(t, path)
		if curve == nil {
			curve = got
		}
		if d := math.Abs(got[0].loss-curve[0].loss) / curve[0].loss; d > tolerance {
			t.Errorf("np %d: loss %v, with one rank %v", np, got[0].loss, curve[0].loss)
		}
	}
}

// Errors reach the user: a message that names the cause, and an exit code.
func testErrors(t *testing.T, launch launcher) {
	for args, want := range map[string]string{
		"--data " + filepath.Join(t.TempDir(), "nowhere"): "train-images-idx3-ubyte.gz is there",
		"--epochs 0":                "want numbers from 1 on",
		"--lr 1e30 --epochs 5":      "a smaller --lr may help",
		"--loss-log " + t.TempDir(): "--loss-log: ",
	} {
		output, err := launch.run(2, strings.Fields(args)...)
		if err == nil {
			t.Errorf("%s: exit code 0, want another", args)
		}
		if !strings.Contains(output, "train: ") || !strings.Contains(output, want) {
			t.Errorf("%s: output lacks %q:\n%s", args, want, output)
		}
		if strings.Contains(output, "final loss") {
			t.Errorf("%s: there is a final line:\n%s", args, output)
		}
	}
}

// Without a driver, or in a build without cgo, there is a reason and no training.
func testNoGPU(t *testing.T, launch launcher) {
	if n, err := cuda.HostGPUs(); n == 0 && err == nil {
		testErrorOnGPUs(t, launch, "", []string{"--device cuda", "no usable CUDA driver"})
	}
}

func testErrorOnGPUs(t *testing.T, launch launcher, args string, want []string) {
	t.Helper()
	output, err := launch.run(2, append(strings.Fields(args), "--device", "cuda")...)
	if err == nil {
		t.Errorf("%s: exit code 0, want another", args)
	}
	for _, w := range append(want, "train: ") {
		if !strings.Contains(output, w) {
			t.Errorf("%s: output lacks %q:\n%s", args, w, output)
		}
	}
	if strings.Contains(output, "final loss") {
		t.Errorf("%s: there is a final line:\n%s", args, output)
	}
}
