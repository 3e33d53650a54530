package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// lossShare is how far the loss of an epoch on the GPU may be from that on the host:
// sums have another order there.
const lossShare = 0.02

// training trains examples/train with two ranks on the first GPU and on the host, and
// compares the losses.
func (k *checker) training() (string, error) {
	if k.train == "" {
		return "not given (--train): not run", nil
	}
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	curve := func(name string, flags []string, args ...string) ([]float64, error) {
		file := filepath.Join(dir, name)
		if _, _, err := k.ranks(0, flags, append([]string{k.train, "--epochs", "5", "--loss-log", file},
			args...)...); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return losses(string(text))
	}
	gpu, err := curve("gpu", onOne(2), "--device", "cuda")
	if err != nil {
		return "", err
	}
	host, err := curve("host", []string{"-np", "2", "--gpu-bind", "none"})
	if err != nil {
		return "", err
	}
	if err := sameCurve(gpu, host); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d epochs, loss %.4f on the GPU and %.4f on the host", len(gpu), gpu[len(gpu)-1],
		host[len(host)-1]), nil
}

// losses reads lines "epoch loss accuracy".
func losses(text string) (list []float64, err error) {
	for line := range strings.Lines(text) {
		var epoch int
		var loss float64
		if _, err := fmt.Sscan(line, &epoch, &loss); err != nil {
			return nil, fmt.Errorf("a line %q of losses: %w", line, err)
		}
		list = append(list, loss)
	}
	if len(list) == 0 {
		return nil, errors.New("no losses")
	}
	return list, nil
}

// sameCurve compares losses, epoch by epoch.
func sameCurve(gpu, host []float64) error {
	if len(gpu) != len(host) {
		return fmt.Errorf("%d epochs on the GPU, %d on the host", len(gpu), len(host))
	}
	for i := range gpu {
		if !(math.Abs(gpu[i]-host[i]) <= lossShare*host[i]) {
			return fmt.Errorf("the loss of epoch %d is %v on the GPU and %v on the host", i+1, gpu[i], host[i])
		}
	}
	return nil
}
