//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

const (
	hosts   = 4
	patient = 5 * time.Minute // with one change of the plans
	payload = 1448.0 / 1514   // the part of a card's rate that is data
)

// network is hosts of which the last one has another card.
type network struct {
	*nethosts.Hosts
	treerun      string
	bytes        int
	usual, other int // Mbit/s
}

func (n *network) slow(is bool) error {
	rate := n.usual
	if is {
		rate = n.other
	}
	return n.SetRate(0, hosts-1, fmt.Sprintf("%dmbit", rate))
}

// bound returns the least time of an AllReduce that moves partial sums.
func (n *network) bound(slow bool) time.Duration {
	least, sum := n.usual, hosts*n.usual
	if slow {
		least, sum = n.other, sum-n.usual+n.other
	}
	rate := min(float64(least), float64(sum)/(2*(hosts-1))) * payload
	return time.Duration(float64(8*n.bytes) / rate * 1e3)
}

// job is a running job.
type job struct {
	lines chan string
	stdin io.Closer
	ended chan error
}

// start starts a job with a rank on every host.
func (n *network) start(more ...string) (*job, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"-v", "--launch-agent", n.Agent(), "-H", n.Slots(1), self, "-bytes",
		fmt.Sprint(n.bytes)}, more...)
	c := n.Command(0, n.treerun, args...)
	c.WaitDelay = time.Second
	j := &job{lines: make(chan string, 1<<16), ended: make(chan error, 1)}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.Stdout, c.Stderr = in, in
	stdin, err := c.StdinPipe()
	if err == nil {
		j.stdin, err = stdin, c.Start()
	}
	_ = in.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			j.lines <- strings.TrimPrefix(s.Text(), "[0] ")
		}
		close(j.lines)
		j.ended <- c.Wait()
	}()
	return j, nil
}

// end ends the job.
func (j *job) end() error {
	_ = j.stdin.Close()
	for range j.lines {
	}
	return <-j.ended
}

// calls waits for that many calls or, with planned, for calls up to a change of the plans, and returns their times, and
// the line of the change.
func (j *job) calls(count int, planned bool) (times []time.Duration, change string, err error) {
	var last []string
	for end := time.After(patient); planned || len(times) < count; {
		select {
		case line, more := <-j.lines:
			if !more {
				return nil, "", fmt.Errorf("the job has ended:\n%s", strings.Join(last, "\n"))
			}
			if last = append(last, line); len(last) > 20 {
				last = last[1:]
			}
			var us int64
			if n, _ := fmt.Sscanf(line, "call %d", &us); n == 1 {
				times = append(times, time.Duration(us)*time.Microsecond)
			}
			if planned && strings.Contains(line, "there are new plans") {
				return times, line, nil
			}
		case <-end:
			return nil, "", fmt.Errorf("%d calls in %v, no change of the plans", len(times), patient)
		}
	}
	return times, "", nil
}

// middle returns the median.
func middle(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// drive makes the hosts, and prints the tables.
func drive(treerun string, quick bool) (err error) {
	n := &network{bytes: 16 << 20, usual: 800, other: 200}
	count, turns := 20, 5
	if quick {
		n.bytes, n.usual, n.other, count, turns = 4<<20, 400, 100, 5, 1
	}
	if n.treerun, err = filepath.Abs(treerun); err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "replan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	if err := os.Setenv("XDG_CACHE_HOME", cache); err != nil {
		return err
	}
	n.Hosts, err = nethosts.Make(hosts, nethosts.Options{
		Networks: []nethosts.Network{{Rates: []string{fmt.Sprintf("%dmbit", n.usual)}}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.follow(count); err != nil {
		return err
	}
	return n.inTurns(count, turns)
}

// follow prints how a job follows a card that becomes slow, and recovers.
func (n *network) follow(count int) error {
	fmt.Print("| card | plans | time, ms | bound, ms | of the bound |\n|---|---|---|---|---|\n")
	row := func(slow bool, plans string, times []time.Duration) {
		rate, bound := n.usual, n.bound(slow)
		if slow {
			rate = n.other
		}
		took := middle(times)
		fmt.Printf("| %d Mbit/s | %s | %d | %d | %.2f |\n", rate, plans, took.Milliseconds(), bound.Milliseconds(),
			float64(bound)/float64(took))
	}
	var notes []string
	for _, without := range []bool{true, false} {
		j, err := n.start(fmt.Sprintf("-without=%v", without))
		if err != nil {
			return err
		}
		change := func(slow bool, before, after string) error {
			if err := n.slow(slow); err != nil {
				return err
			}
			begin := time.Now()
			times, line, err := j.calls(count/2, !without)
			if err != nil {
				return err
			}
			times = times[min(1, len(times)-1):] // the first had begun
			row(slow, before, times)
			if without {
				return nil
			}
			took := time.Since(begin)
			if times, _, err = j.calls(count, false); err != nil {
				return err
			}
			row(slow, after, times[1:])
			notes = append(notes, fmt.Sprintf("%.1f s after the change of the card: %s", took.Seconds(),
				strings.TrimPrefix(line, "treerun: communicator world: ")))
			return nil
		}
		times, _, err := j.calls(count, false)
		if err != nil {
			return err
		}
		name := "of the start"
		if without {
			name = "of the start, WithoutReplan"
		}
		row(false, name, times)
		if err := change(true, name, "new"); err != nil {
			return err
		}
		if !without {
			if err := change(false, "of the slow card", "new"); err != nil {
				return err
			}
		} else if err := n.slow(false); err != nil {
			return err
		}
		if err := j.end(); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, note := range notes {
		fmt.Println("-", note)
	}
	return nil
}

// inTurns prints the times of calls of jobs whose network does not change, with and without looks, in turns.
func (n *network) inTurns(count, turns int) error {
	var all [2][]time.Duration
	for range turns {
		for i := range all {
			j, err := n.start(fmt.Sprintf("-without=%v", i == 1))
			if err != nil {
				return err
			}
			times, _, err := j.calls(count, false)
			if err == nil {
				err = j.end()
			}
			if err != nil {
				return err
			}
			all[i] = append(all[i], times[1:]...)
		}
	}
	with, without := middle(all[0]), middle(all[1])
	fmt.Printf("\nA card that does not change, %d jobs each in turns: %.1f ms, and WithoutReplan %.1f ms (%.3f).\n", turns,
		with.Seconds()*1e3, without.Seconds()*1e3, float64(with)/float64(without))
	return nil
}
