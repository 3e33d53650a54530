//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A launcher that has started a hundred processes for lost ranks holds no more descriptors and zombies than after ten.
// Nor does its guard.
func TestManyRespawns(t *testing.T) {
	const few, many = 10, 100
	args := strings.Fields(fmt.Sprintf("-np 3 --on-failure respawn --max-restarts %d lives %d", many, 2*many+10))
	for epoch := range many {
		args = append(args, fmt.Sprintf("%d:%d:%d:kill", 2*epoch, 1+epoch%2, epoch))
	}
	for _, epoch := range []int{few, many} {
		args = append(args, fmt.Sprintf("%d:0:%d:usage", 2*epoch-1, epoch))
	}
	l := startTreerun(t, nil, args...)
	l.expect(2, "usage: ")
	l.checkEnd(0)
	var usage []string
	for _, line := range l.output {
		if _, text, found := strings.Cut(line, "usage: "); found {
			usage = append(usage, text)
		}
	}
	t.Log(usage)
	var before, after [3]int // descriptors of the launcher and of its guard, zombies
	for i, n := range []*[3]int{&before, &after} {
		if _, err := fmt.Sscanf(usage[i], "launcher %d, guard %d, zombies %d", &n[0], &n[1], &n[2]); err != nil {
			t.Fatalf("%q: %v", usage[i], err)
		}
	}
	const moment = (many - few) / 4 // on a busy machine the guard may be late; what is lost with each respawn is more
	for i := range before {
		if after[i] > before[i]+moment {
			t.Errorf("after %d respawns %s, after %d %s", few, usage[0], many, usage[1])
		}
	}
	if text := l.stderr.String(); !strings.Contains(text, "began with 3 ranks and has ended well with 3 (0-2)") ||
		!strings.Contains(text, fmt.Sprintf("\n    and %d more\n", many-16)) {
		t.Errorf("the last line does not count the losses:\n%s", text)
	}
}

// A job whose next epoch forms ends as any job does: by signals, and by its time limit. One rank has been killed, one
// takes long to renew, and one waits.
func TestStopWhileAnEpochForms(t *testing.T) {
	for _, c := range []struct {
		name, flags string
		signal      syscall.Signal
		code        int
		words       string
	}{
		{"sigterm", "", syscall.SIGTERM, 143, "stopped by SIGTERM"},
		{"ctrl-c", "", syscall.SIGINT, 130, "stopped by SIGINT"},
		{"timeout", "--timeout 1.5", 0, 124, "the time limit of 1.5s is over"},
		{"kill", "", syscall.SIGKILL, 137, ""},
	} {
		for _, policy := range []string{"respawn", "shrink"} {
			t.Run(c.name+" "+policy, func(t *testing.T) {
				t.Parallel()
				args := strings.Fields("-np 3 --on-failure " + policy + " " + c.flags + " lives 20 5:1:0:kill 5:2:0:slow")
				l := startTreerun(t, nil, args...)
				l.expect(1, "fault: slow")
				time.Sleep(100 * time.Millisecond) // the first rank renews
				if c.signal != 0 {
					l.signal(c.signal)
				}
				l.checkEnd(c.code)
				if !strings.Contains(l.stderr.String(), c.words) {
					t.Errorf("stderr does not have %q:\n%s", c.words, &l.stderr)
				}
			})
		}
	}
}

// A rank whose Renew was given up, and that lives on, is no member of the next epoch. The others wait for its end, and
// not for a connection to it.
func TestGivenUpRenew(t *testing.T) {
	// Rank 0 renews 0.5 s after its start at most, and ends 1 s after that; rank 2 has renewed meanwhile.
	l := startTreerun(t, nil, "-np", "3", "--on-failure", "shrink", "sh", "-c",
		`test $RANK = 0 && export LIVES_LIMIT=0.5s; exec lives 20 5:1:0:kill 5:2:0:wait`)
	l.checkEnd(0)
	text := strings.Join(l.output, "\n")
	if !strings.Contains(text, "origin 2 is rank 0 of 1, lost [0 1]") || strings.Contains(text, "is rank 0 of 2") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", text, &l.stderr)
	}
	if !strings.Contains(l.stderr.String(), "waiting for the next epoch: context deadline exceeded") {
		t.Errorf("stderr:\n%s", &l.stderr)
	}
}

// A rank that has closed its World, and is then stopped for ever, does not keep the job.
func TestStoppedAfterClose(t *testing.T) {
	for policy, code := range map[string]int{"respawn": 137, "shrink": 137, "restart": 0} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, nil, "-np", "3", "--on-failure", policy, "--stall-timeout", "1", "lives", "5", "5:1:0:stop")
			l.checkEnd(code)
			if !strings.Contains(l.stderr.String(), "it was stopped by SIGSTOP") {
				t.Errorf("stderr does not name the reason:\n%s", &l.stderr)
			}
			again := regexp.MustCompile(`treerun: all 3 ranks run again, [0-9.m]+s after the latest loss\n(.*\n)*.* ended ` +
				`well with 3 \(0-2\), after the loss of:\n    rank 1 was killed by SIGKILL \(treerun ends it: others have ` +
				`waited [0-9.]+s for it, --stall-timeout is 1s; it was stopped by SIGSTOP`)
			if policy == "restart" && !again.MatchString(l.stderr.String()) {
				t.Errorf("want %v:\n%s", again, &l.stderr)
			}
		})
	}
}
