package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const together = 4 // ranks on one GPU whose AllReduce is timed

// timedJob measures an AllReduce of processes on one GPU.
func (k *checker) timedJob(np int, bytes int64) (*times, error) {
	out, _, err := k.job(0, onOne(np), "time", "--bytes", strconv.FormatInt(bytes, 10))
	if err != nil {
		return nil, err
	}
	line, found := lineWith(out, "median_us")
	if !found {
		return nil, fmt.Errorf("no times in %q", out)
	}
	var t times
	return &t, json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &t)
}

func (k *checker) procs() (_ string, err error) {
	if k.Processes, err = k.timedJob(together, k.large); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes in %.0f us, plan %s", k.Processes.Bytes, k.Processes.MedianUs, k.Processes.Plan), nil
}

func (k *checker) latency() (_ string, err error) {
	if k.Latency, err = k.timedJob(2, 8); err != nil {
		return "", err
	}
	return fmt.Sprintf("%.1f us, plan %s", k.Latency.MedianUs, k.Latency.Plan), nil
}

// bench runs treerun bench on all GPUs, or two ranks on the only one.
func (k *checker) bench() (string, error) {
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rows.json")
	flags := onOne(2)
	if k.gpus > 1 {
		flags = []string{"-np", strconv.Itoa(k.gpus)}
	}
	args := append([]string{"bench", "--device", "cuda", "--json", file, "-b", "8", "-e", strconv.FormatInt(k.large, 10),
		"-f", "32", "--max-seconds", "1"}, flags...)
	if out, err := k.command(k.treerun, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("treerun %s: %w: %s", strings.Join(args, " "), err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	k.Bench = nil
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		k.Bench = append(k.Bench, json.RawMessage(line))
	}
	return fmt.Sprintf("%d rows, every element right", len(k.Bench)), nil
}

// sanitizer runs what one process does by itself under compute-sanitizer, where that
// is installed and knows the device.
func (k *checker) sanitizer() (string, error) {
	tool := sanitizerFile()
	if tool == "" {
		return "not installed here: not run", nil
	}
	out, err := k.command(tool, "--error-exitcode", "9", k.self, "alone").CombinedOutput()
	switch {
	case strings.Contains(string(out), "Device not supported"):
		return fmt.Sprintf("not run: %s does not support this device", tool), nil
	case err != nil:
		return "", fmt.Errorf("%s: %w: %s", tool, err, out)
	}
	return "clean", nil
}

// sanitizerFile returns where compute-sanitizer is, "" if nowhere.
func sanitizerFile() string {
	if tool, err := exec.LookPath("compute-sanitizer"); err == nil {
		return tool
	}
	for _, pattern := range []string{"/usr/local/cuda*/bin/compute-sanitizer",
		"/usr/local/cuda*/compute-sanitizer/compute-sanitizer"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}
