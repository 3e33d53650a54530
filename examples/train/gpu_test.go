//go:build cgo && linux

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// Training on GPUs has the same results as on the host, for any number of ranks. The GPUs
// are fake ones, and run the kernels' own sources.
func TestOnGPUs(t *testing.T) {
	launch := build(t)
	t.Run("loss curve", func(t *testing.T) { testLossCurveOnGPUs(t, launch) })
	t.Run("errors", func(t *testing.T) { testErrorsOnGPUs(t, launch) })
}

func testLossCurveOnGPUs(t *testing.T, launch launcher) {
	gpus := launcher{launch.dir, fakegpu.Start(t, "dgx1v")}
	for args, ranks := range map[string][]int{
		fmt.Sprint("--epochs ", testutil.Count(3, 6)):                []int{1, 4, 8}[:testutil.Count(2, 3)],
		fmt.Sprint("--hidden 24,16 --epochs ", testutil.Count(2, 4)): {2},
		"--epochs 1 --batch 3 --lr 0.01 --hidden 8 --momentum 0":     {5}, // some ranks have no image of a batch
	} {
		path := filepath.Join(t.TempDir(), "loss")
		if output, err := launch.run(1, append(strings.Fields(args), "--loss-log", path)...); err != nil {
			t.Fatalf("%s on the host: %v\n%s", args, err, output)
		}
		want := readLossLog(t, path)
		for _, np := range ranks {
			output, err := gpus.run(np, append(strings.Fields(args), "--device", "cuda", "--loss-log", path)...)
			if err != nil {
				t.Fatalf("%s on %d GPUs: %v\n%s", args, np, err, output)
			}
			if final.FindString(output) == "" {
				t.Errorf("%s on %d GPUs: no final line:\n%s", args, np, output)
			}
			got := readLossLog(t, path)
			if len(got) != len(want) {
				t.Fatalf("%s on %d GPUs: %d lines in the loss log, want %d", args, np, len(got), len(want))
			}
			for i := range want {
				if d := math.Abs(got[i].loss-want[i].loss) / want[i].loss; !(d <= tolerance) {
					t.Errorf("%s on %d GPUs, epoch %d: loss %v, on the host %v (%.1e off)", args, np, i+1, got[i].loss,
						want[i].loss, d)
				}
				if d := math.Abs(got[i].accuracy - want[i].accuracy); !(d < 1.5/360) { // one image on the edge
					t.Errorf("%s on %d GPUs, epoch %d: accuracy %v, on the host %v", args, np, i+1, got[i].accuracy, want[i].accuracy)
				}
			}
		}
	}
}

// A failure on a GPU is reported with the rank, the call and the device.
func testErrorsOnGPUs(t *testing.T, launch launcher) {
	host := fakegpu.Start(t, "dgx1v/0-1")
	for _, c := range []struct {
		env  []string
		args string
		want []string
	}{
		{host, "--lr 1e30 --epochs 5", []string{"a smaller --lr may help"}},
		{append(host, "TREERUN_FAKE_GPU_FAIL=cuMemAlloc:3"), "",
			[]string{"rank ", "cuMemAlloc of ", "on device ", "CUDA_ERROR_OUT_OF_MEMORY"}},
		{append(host, "TREERUN_FAKE_GPU_FAIL=cuModuleLoadDataEx:1:218"), "",
			[]string{"rank ", "cuModuleLoadDataEx", "CUDA_ERROR_INVALID_PTX"}},
		{append(host, "TREERUN_FAKE_GPU_DRIVER=10020"), "", []string{"--device cuda", "no usable CUDA driver"}},
	} {
		testErrorOnGPUs(t, launcher{launch.dir, c.env}, c.args, c.want)
	}
}
