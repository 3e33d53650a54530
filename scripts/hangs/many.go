//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// sleep stands in for a rank of many on one host: it has a page, and sleeps. Once the driver opens the FIFO, all but
// the victim wait in a Barrier along a tree.
func sleep(number int) error {
	fd, err := strconv.Atoi(os.Getenv(job.EnvFD))
	if err != nil {
		return fmt.Errorf("%s: %w", job.EnvFD, err)
	}
	size, err := strconv.Atoi(os.Getenv(job.EnvSize))
	if err == nil {
		err = syscall.Ftruncate(fd, int64(job.StatusAt+status.Bytes))
	}
	if err != nil {
		return err
	}
	b, err := syscall.Mmap(fd, 0, job.StatusAt+status.Bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	page := status.NewPage(b[job.StatusAt:])
	page.SetWorld(os.Getpid(), 0, number, size)
	page.SetPhase(status.Running)
	calls, _ := page.Open("world", size)
	status.Add(&calls.Rows[0].Calls, 1)
	fmt.Println("ready", os.Getenv(job.EnvJobID), number, os.Getpid())
	if number != victim {
		begin, err := os.Open(os.Getenv("HANGS_DIR") + "/fifo")
		if err != nil {
			return err
		}
		defer begin.Close()
		on := (number - 1) / 2
		if number < victim {
			on = victim
		}
		s := waits.Status{Waits: []waits.Waiting{{Scope: "world", In: "Barrier #2", For: []int{on},
			Since: time.Now().UnixNano()}}}
		page.SetWaits(strict.Marshal(&s))
	}
	time.Sleep(time.Hour)
	return nil
}

// crowd is the result of many ranks on one host.
type crowd struct {
	Ranks   int     `json:"ranks"`
	Status  float64 `json:"status_s"` // the median of several
	Quiet   float64 `json:"quiet"`    // the launcher's share of a core while no rank waits
	Hanging float64 `json:"hanging"`  // and after the watch has printed the verdict
	Watch   float64 `json:"watch_s"`
	Verdict string  `json:"verdict"`
	Load    float64 `json:"load"`
}

// many measures treerun status and the watch for many ranks on one host, of which one is stopped.
func many(treerun, self string, n int, record *json.Encoder) error {
	dir, err := os.MkdirTemp("", "hangs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		return err
	}
	c := exec.Command(treerun, "-np", strconv.Itoa(n), "--tag-output=false", "-x", "HANGS_KIND=many", "-x",
		"HANGS_DIR="+dir, self)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	printed := make(chan time.Time, 1)
	go func() {
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			if strings.Contains(lines.Text(), "is stopped by") {
				printed <- time.Now()
			}
		}
	}()
	id, pid, ready := "", 0, 0
	for lines := bufio.NewScanner(out); ready < n && lines.Scan(); ready++ {
		var number, process int
		if _, err := fmt.Sscanf(lines.Text(), "ready %s %d %d", &id, &number, &process); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if number == victim {
			pid = process
		}
	}
	r := crowd{Ranks: n}
	time.Sleep(2 * time.Second) // the start is over
	r.Quiet = share(c.Process.Pid)
	begin := time.Now()
	fifo, err := os.OpenFile(dir+"/fifo", os.O_RDWR, 0)
	if err == nil {
		defer fifo.Close()
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		return err
	}
	select {
	case at := <-printed:
		r.Watch = at.Sub(begin).Seconds()
	case <-time.After(watchLimit):
		return errors.New("the watch has printed nothing")
	}
	r.Hanging = share(c.Process.Pid)
	took, verdict, err := statusTimes(treerun, id)
	if err != nil {
		return err
	}
	r.Verdict = verdict
	r.Status, r.Load = numbers.Median(took), load()
	fmt.Printf("%d ranks: status in %.3f s (%.3f to %.3f), the watch after %.1f s, %.2f %% of a core, %.2f %% hanging: "+
		"%s\n", n, r.Status, took[0], took[len(took)-1], r.Watch, 100*r.Quiet, 100*r.Hanging, r.Verdict)
	return record.Encode(r)
}

// statusTimes returns the seconds that treerun status takes for a job, the least first, and the verdict.
func statusTimes(treerun, id string) (took []float64, verdict string, err error) {
	for range 9 {
		begin := time.Now()
		text, err := exec.Command(treerun, "status", id).Output()
		if err != nil {
			return nil, "", fmt.Errorf("treerun status: %w", err)
		}
		took = append(took, time.Since(begin).Seconds())
		if lines := strings.Split(string(text), "\n"); len(lines) > 1 {
			verdict = lines[1]
		}
	}
	slices.Sort(took)
	return took, verdict, nil
}

// share returns the share of a core that a process takes in ten seconds.
func share(pid int) float64 {
	used := func() (ticks float64) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // 0 without it
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, i := range []int{14 - 3, 15 - 3} {
			if i < len(fields) {
				n, _ := strconv.ParseFloat(fields[i], 64)
				ticks += n
			}
		}
		return ticks
	}
	const long, tick = 10 * time.Second, 10 * time.Millisecond
	before := used()
	time.Sleep(long)
	return (used() - before) * tick.Seconds() / long.Seconds()
}
