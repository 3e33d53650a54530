//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

const stoppedRank = 1

// stopper is a rank of a job of which rank 1 stops itself with SIGSTOP before the
// step that its argument names. The others print the error of that step, rank 0 or another rank
// of its host continues rank 1, and rank 1 prints its own error.
func stopper() {
	if err := runUntilStopped(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runUntilStopped(step string) error {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	all, err := w.AllGather(ctx, fmt.Append(nil, os.Getpid()))
	if err != nil {
		return err
	}
	fail := stoppedAtNew
	if step != "New" && step != "World.AllGather" {
		if fail, err = stoppedWithComm(ctx, w, step); err != nil {
			return err
		}
	} else if step == "World.AllGather" {
		fail = stoppedInAllGather
	}
	if w.Rank() == stoppedRank {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the signal may reach another thread first
	}
	printFault(w, fail(ctx, w))
	last := stoppedRank + 1
	if w.HostOf(0) == w.HostOf(stoppedRank) {
		last = 0
	}
	if w.Rank() == last {
		time.Sleep(700 * time.Millisecond) // until all others have printed theirs
		var pid int
		if _, err := fmt.Sscan(string(all[stoppedRank]), &pid); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGCONT)
	}
	time.Sleep(1500 * time.Millisecond)
	return nil
}

// printFault prints the rank at fault.
func printFault(w *rank.World, err error) {
	var c *collective.RankError
	var r *rank.Error
	fault := -2
	switch {
	case errors.As(err, &c):
		fault = c.Rank
	case errors.As(err, &r):
		fault = r.Rank
	}
	fmt.Fprintf(os.Stderr, "rank %d: fault %d, stalled %v, victim %d: %v\n", w.Rank(), fault,
		errors.Is(err, collective.ErrStalled), stoppedRank, err)
}

// stoppedInAllGather makes AllGathers until one fails: the stopped rank may find all data
// of the first one when it continues.
func stoppedInAllGather(ctx context.Context, w *rank.World) (err error) {
	for range 2 {
		if _, err = w.AllGather(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func stoppedAtNew(ctx context.Context, w *rank.World) error {
	_, err := collective.New(ctx, w)
	return err
}

// stoppedWithComm makes a communicator, uses it, checks the results, and returns the step on it.
func stoppedWithComm(ctx context.Context, w *rank.World, step string) (func(context.Context, *rank.World) error,
	error) {
	c, err := collective.New(ctx, w)
	if err != nil {
		return nil, err
	}
	x := make([]float32, 5000)
	reduce := func() error {
		for i := range x {
			x[i] = float32(i + w.Rank())
		}
		if err := collective.AllReduce(ctx, c, x, x, collective.Sum); err != nil {
			return err
		}
		n := w.Size()
		for i := range x {
			if want := float32(n*i + n*(n-1)/2); x[i] != want {
				fmt.Fprintf(os.Stderr, "WRONG RESULT: element %d is %v, want %v\n", i, x[i], want)
			}
		}
		return nil
	}
	for range 20 {
		if err := reduce(); err != nil {
			return nil, err
		}
	}
	return func(context.Context, *rank.World) error {
		switch step {
		case "Split":
			_, err := c.Split(ctx, 0, 0)
			return err
		case "Recv":
			if w.Rank() == stoppedRank {
				return collective.Barrier(ctx, c)
			}
			_, err := collective.Recv(ctx, c, x, stoppedRank, 1)
			return err
		}
		return reduce()
	}, nil
}
