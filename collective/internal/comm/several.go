package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/internal/setup"
)

// found is the number of a request that is done, or has failed, -1 for none.
type found struct {
	at  int
	err error
}

// ended is the result of a wait for request i. One that a call of another goroutine did not allow is none of i.
func ended(i int, err error) found {
	if errors.Is(err, setup.ErrBusy) {
		i = -1
	}
	return found{i, err}
}

// is reports whether f is more than none.
func (f found) is() bool { return f.at >= 0 || f.err != nil }

// named returns the error of a wait for all of these requests, which names the one that has failed.
func (f found) named(call string, all []Request) error {
	if f.err == nil {
		return nil
	}
	if f.at < 0 {
		return fmt.Errorf("collective: %s: %w", call, f.err)
	}
	return fmt.Errorf("collective: %s, request %d of 0..%d: %w", call, f.at, len(all)-1, f.err)
}

// WaitAll returns when all of them are done, with the error of one that has failed.
func WaitAll(ctx context.Context, all []Request) error {
	const name = "WaitAll"
	return perComm(ctx, all, func(stop context.Context, others bool, of []int) found {
		for k, i := range of {
			if !others {
				if err := all[i].Wait(ctx); err != nil {
					return ended(i, err)
				}
			} else if f := waitAny(ctx, stop, name, all, of[k:k+1]); f.at < 0 || f.err != nil {
				return f // also where one of another communicator has failed
			}
		}
		return found{at: -1}
	}).named(name, all)
}

// WaitAny returns the number of one of them that is done or has failed, with its error, once there is one. It ignores
// zero values, and returns -1 if there are no others.
func WaitAny(ctx context.Context, all []Request) (int, error) {
	const name = "WaitAny"
	busy := found{at: -1}
	for i, r := range all {
		if r == (Request{}) {
			continue
		}
		done, err := r.Test()
		if f := ended(i, err); f.at < 0 {
			busy = f
		} else if done || err != nil {
			return i, f.named(name, all)
		}
	}
	if busy.err != nil {
		return -1, busy.named(name, all)
	}
	f := perComm(ctx, all, func(stop context.Context, _ bool, of []int) found {
		return waitAny(ctx, stop, name, all, of)
	})
	return f.at, f.named(name, all)
}

// perComm calls f for the requests of each communicator, by their numbers, side by side where there are others. stop, a
// context made of ctx, ends once one of them has a result. Of the results perComm returns one without an error, if
// there is one.
func perComm(ctx context.Context, all []Request,
	f func(stop context.Context, others bool, of []int) found) found {
	parts := make(map[*Comm][]int)
	for i, r := range all {
		if r.c != nil {
			parts[r.c] = append(parts[r.c], i)
		}
	}
	if len(parts) == 1 {
		for _, of := range parts {
			return f(ctx, false, of)
		}
	}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan found, len(parts))
	for _, of := range parts {
		go func() { results <- f(stop, true, of) }()
	}
	best := found{at: -1}
	for range parts {
		if r := <-results; r.is() && (!best.is() || best.err != nil && r.err == nil) {
			best = r
			cancel()
		}
	}
	return best
}

// waitAny is WaitAny, as a part of call, of those with these numbers, which are of one communicator. It returns none
// where stop, a context made of ctx, has ended first.
func waitAny(ctx, stop context.Context, call string, all []Request, of []int) found {
	first := all[of[0]]
	if done, err := first.resume(); done || err != nil {
		return ended(of[0], err)
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
	a := engine.Any{Call: call, All: len(of) == 1, Reached: func() bool { return at() >= 0 }, Messages: messages,
		Calls: len(messages) < len(of)}
	fault, failed := a.Wait(ctx, stop, c.Engine, &c.Waiter)
	i := at()
	switch {
	case failed && i < 0:
		what, undefined := first.doing()
		return found{of[0], c.failure.during(fault, what, undefined)}
	case i < 0:
		return found{at: -1}
	}
	all[of[i]].counted()
	return found{at: of[i]}
}
