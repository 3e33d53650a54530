//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// kind is a sort of hang: what the verdict and the table of treerun status must have, and the text of the line that the
// watch prints.
type kind struct {
	name    string
	what    string // in words, for the page
	verdict string // a regular expression; LINE stands for the line that the rank has printed
	state   string // the word for the process in the table, as a regular expression
	sure    bool   // no work can be the reason: the watch need not wait for ten seconds
	only    string // the places, "": all
	act     func(t *trial) error
}

const allWait = `^7 of 8 ranks wait together in AllReduce #21 \(sum of 1000 float32\) for \S+; `

var kinds = []kind{
	{name: "init", what: "never calls `rank.Init`", state: "sleeps",
		verdict: `^7 of 8 ranks wait in rank.Init for .*; rank 2 has not called rank.Init yet.*; its process \d+ sleeps, ` +
			`in LINE`},
	{name: "never", what: "makes no call any more", state: "sleeps",
		verdict: allWait + `rank 2 is in no call; its process \d+ sleeps, in LINE`},
	{name: "lock", what: "waits for a mutex of its program", state: "sleeps",
		verdict: allWait + `rank 2 is in no call; its process \d+ sleeps, in LINE`},
	{name: "loop", what: "is in an endless loop", state: "computes|starves",
		verdict: allWait + `rank 2 is in no call; its process \d+ (computes|is ready to run|sleeps).*, in main.spin at worker.go:`},
	{name: "pipe", what: "reads from an empty pipe", state: "read",
		verdict: allWait + `rank 2 is in no call; its process \d+ is blocked in the system call read, in LINE`},
	{name: "flock", what: "waits for a lock of a file", state: "flock",
		verdict: allWait + `rank 2 is in no call; its process \d+ is blocked in the system call flock, in LINE`},
	{name: "open", what: "opens a FIFO without a writer", state: "openat",
		verdict: allWait + `rank 2 is in no call; its process \d+ is blocked in the system call openat, in LINE`},
	{name: "stopped", what: "is stopped", state: "stopped", sure: true, act: (*trial).stop,
		verdict: allWait + `rank 2 is in no call; its process \d+ is stopped by SIGSTOP, in LINE`},
	{name: "starved", what: "computes, and gets no core", state: "starves|computes", act: (*trial).starve,
		only:    "host", // the agent of another host has a session, to which the kernel gives a share of the core
		verdict: allWait + `rank 2 is in no call; its process \d+ is ready to run and gets \d+ % of a core`},
	{name: "recv", what: "waits in Recv, without a Send", state: "sleeps|runs", sure: true,
		verdict: `rank 2 (waits )?in Recv \(1000 float32, tag 7\) for rank 3, rank 3 in AllReduce #21 \(sum of 1000 float32\) ` +
			`for rank .*: a circle`},
	{name: "circle", what: "waits in Recv for a rank that waits in Recv for it", state: "sleeps|runs", sure: true,
		verdict: `rank 2 waits in Recv \(1000 float32, tag 7\) for rank 3, rank 3 in Recv \(1000 float32, tag 7\) for rank 2: ` +
			`a circle`},
	{name: "path", what: "sends, and the network loses it", state: "sleeps|runs", sure: true, only: "hosts",
		act:     (*trial).mute, // a rank whose last chunk of call 21 is not lost waits in call 22
		verdict: `rank \d waits in AllReduce #2[12] .* rank [23] .*: a circle`},
	{name: "output", what: "prints, and nothing reads treerun's output", state: "write|sleeps|runs",
		verdict: `(^treerun's|rank \d is in no call; .* write, in main.work at worker.go:\d+.*: treerun's) standard output is not read`},
}

// stop stops the victim.
func (t *trial) stop() error { return syscall.Kill(t.pids[victim], syscall.SIGSTOP) }

// starve gives the victim one core, which other processes have, and the least right to it.
func (t *trial) starve() error {
	for range 2 {
		busy := exec.Command("taskset", "-c", "0", t.self, "-spin")
		if err := busy.Start(); err != nil {
			return err
		}
		t.helpers = append(t.helpers, busy)
	}
	pid := strconv.Itoa(t.pids[victim])
	for _, c := range []*exec.Cmd{exec.Command("taskset", "-a", "-c", "-p", "0", pid),
		exec.Command("chrt", "-a", "-i", "-p", "0", pid)} {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	return nil
}

// mute makes the host of the victim lose all packets that it sends.
func (t *trial) mute() error { return t.place.hosts.Mute(0, t.place.hostOf(victim)) }
