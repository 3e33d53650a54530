package comm

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
)

// found is the number of a request that is done, or has failed, -1 for none.
type found struct {
	at  int
	err error
}

// named returns the error of a wait for all of these requests, which names the one that has failed.
func (f found) named(call string, all []Request) error {
	if f.err == nil {
		return nil
	}
	return fmt.Errorf("collective: %s, request %d of 0..%d: %w", call, f.at, len(all)-1, f.err)
}

// WaitAll returns when all of them are done, with the error of one that has failed.
func WaitAll(ctx context.Context, all []Request) error {
	return perComm(all, func(of []int) found {
		for _, i := range of {
			if err := all[i].Wait(ctx); err != nil {
				return found{i, err}
			}
		}
		return found{at: -1}
	}).named("WaitAll", all)
}

// WaitAny returns the number of one of them that is done or has failed, with its error, once there is one. It ignores
// zero values, and returns -1 if there are no others.
func WaitAny(ctx context.Context, all []Request) (int, error) {
	for i, r := range all {
		if r == (Request{}) {
			continue
		}
		if done, err := r.Test(); done || err != nil {
			return i, found{i, err}.named("WaitAny", all)
		}
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	f := perComm(all, func(of []int) found {
		defer cancel() // the waits for those of other communicators
		return waitAny(ctx, within, all, of)
	})
	return f.at, f.named("WaitAny", all)
}

// perComm calls f for the requests of each communicator, by their numbers, side by side. Of the results it returns one
// without an error, if there is one.
func perComm(all []Request, f func(of []int) found) found {
	parts := make(map[*Comm][]int)
	for i, r := range all {
		if r.c != nil {
			parts[r.c] = append(parts[r.c], i)
		}
	}
	results := make(chan found, len(parts))
	for _, of := range parts {
		if len(parts) == 1 {
			return f(of)
		}
		go func() { results <- f(of) }()
	}
	best := found{at: -1}
	for range parts {
		if r := <-results; r.at >= 0 && (best.at < 0 || r.err == nil) {
			best = r
		}
	}
	return best
}

// waitAny is WaitAny, of those with these numbers, which are of one communicator. It returns none where stop, a context
// made of ctx, has ended first.
func waitAny(ctx, stop context.Context, all []Request, of []int) found {
	first := all[of[0]]
	if done, err := first.resume(); done || err != nil {
		return found{of[0], err}
	}
	c := first.c
	defer c.End()
	at := func() int { return slices.IndexFunc(of, func(i int) bool { return all[i].done() }) }
	var messages []*p2p.Message
	for _, i := range of {
		if r := all[i]; r.isMessage() && !r.done() {
			messages = append(messages, r.message().Message())
		}
	}
	a := engine.Any{Reached: func() bool { return at() >= 0 }, Messages: messages, Calls: len(messages) < len(of)}
	fault, failed := a.Wait(ctx, stop, c.Engine, &c.Waiter)
	i := at()
	switch {
	case failed:
		what, undefined := "WaitAny", ""
		if !first.done() {
			what, undefined = first.doing()
		}
		return found{of[0], c.failure.during(fault, what, undefined)}
	case i < 0:
		return found{at: -1}
	}
	all[of[i]].counted()
	return found{at: of[i]}
}
