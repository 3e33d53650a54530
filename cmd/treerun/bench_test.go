//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// benchRow is the JSON form of a row for its readers, written a second time
// from the contract.
type benchRow struct {
	Collective, Type, Op, Plan string
	NP, Bytes, Count, Root     int
	InPlace                    bool    `json:"in_place"`
	TimeUs                     float64 `json:"time_us"`
	MeanUs                     float64 `json:"mean_us"`
	MinUs                      float64 `json:"min_us"`
	P90Us                      float64 `json:"p90_us"`
	P99Us                      float64 `json:"p99_us"`
	AlgbwGBs                   float64 `json:"algbw_gbs"`
	BusbwGBs                   float64 `json:"busbw_gbs"`
	Wrong                      *int
	PredictedUs                *float64 `json:"predicted_us"`
	LimitShare                 float64  `json:"limit_share"`
}

// bench on 1, 2 and 4 ranks writes rows that decode, with right results, and
// bandwidths that follow from the times.
func TestBenchRows(t *testing.T) {
	testutil.NotUnderRace(t, "package bench has tests of its own")
	t.Parallel()
	factor := map[string]func(n float64) float64{
		"allreduce":        func(n float64) float64 { return 2 * (n - 1) / n },
		"sparse-allreduce": func(n float64) float64 { return 2 * (n - 1) / n },
		"allgather":        func(n float64) float64 { return (n - 1) / n },
		"reducescatter":    func(n float64) float64 { return (n - 1) / n },
		"alltoall":         func(n float64) float64 { return (n - 1) / n },
		"gather":           func(n float64) float64 { return (n - 1) / n },
		"scatter":          func(n float64) float64 { return (n - 1) / n },
	}
	for _, np := range []int{1, 2, 4} {
		t.Run(fmt.Sprint("np=", np), func(t *testing.T) {
			l := startTreerun(t, nil, "bench", "-np", strconv.Itoa(np), "--collective", "all", "-b", "8", "-e", "32K", "-f",
				"16", "-i", "4", "-w", "1", "--json", "-")
			l.checkEnd(0)
			seen := map[string]int{}
			for _, line := range l.output {
				var r benchRow
				d := json.NewDecoder(bytes.NewReader([]byte(line)))
				if err := d.Decode(&r); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				seen[r.Collective]++
				if r.NP != np || r.TimeUs <= 0 || r.MinUs > r.TimeUs || r.TimeUs > r.P99Us || r.P90Us > r.P99Us ||
					r.MeanUs < r.MinUs || r.LimitShare < 0 {
					t.Errorf("impossible: %s", line)
				}
				if r.Bytes == 0 {
					continue
				}
				if r.Wrong == nil || *r.Wrong != 0 {
					t.Errorf("wrong elements: %s", line)
				}
				bus := 1.0
				if f := factor[r.Collective]; f != nil {
					bus = f(float64(np))
				}
				if math.Abs(r.AlgbwGBs-float64(r.Bytes)/r.TimeUs/1e3) > 1e-3*r.AlgbwGBs+1e-6 ||
					math.Abs(r.BusbwGBs-bus*r.AlgbwGBs) > 1e-6 {
					t.Errorf("the bandwidths do not follow from the time: %s", line)
				}
			}
			for _, name := range []string{"allreduce", "reduce", "broadcast"} { // 8, 128, 2K and 32K, out of place and in place
				if seen[name] != 8 {
					t.Errorf("%d rows of %s, want 8: %v", seen[name], name, seen)
				}
			}
			if seen["barrier"] != 1 {
				t.Errorf("%d rows of barrier, want 1", seen["barrier"])
			}
		})
	}
}

// A reader that closes the table ends the job, without a message; an interrupt ends it
// with the signal's code.
func TestBenchStops(t *testing.T) {
	testutil.NotUnderRace(t, "package bench has tests of its own")
	l := startTreerun(t, nil, "bench", "-np", "2", "-b", "8", "-e", "8", "-i", "1000000", "--max-seconds", "100",
		"--collective", "barrier,allreduce")
	l.expect(1, "Rank  1")
	l.signal(syscall.SIGINT)
	l.checkEnd(130)

	cmd := exec.Command(l.cmd.Path, "bench", "-np", "2", "-b", "8", "-e", "64K", "-i", "2")
	cmd.Args[0] = "treerun"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(stdout, 16).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	cmd.Wait() // ProcessState holds the exit status
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) || stderr.Len() > 0 {
		t.Errorf("exit code %d, want that of SIGPIPE; stderr:\n%s", code, &stderr)
	}
}
