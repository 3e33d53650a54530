package comm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/internal/engine"
)

// WaitAll returns when all of them are done, with the error of the first that has failed.
func WaitAll(ctx context.Context, all []Request) error {
	errs := make([]error, len(all))
	perComm(all, func(of []int) {
		for _, i := range of {
			if errs[i] = all[i].Wait(ctx); errs[i] != nil {
				return
			}
		}
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("collective: WaitAll, request %d of 0..%d: %w", i, len(all)-1, err)
		}
	}
	return nil
}

// WaitAny returns the number of one of them that is done or has failed, with its error, once there is one. It ignores
// zero values, and returns -1 if there are no others.
func WaitAny(ctx context.Context, all []Request) (int, error) {
	found, failed, under := -1, error(nil), 0
	for i, r := range all {
		if r == (Request{}) {
			continue
		}
		under++
		done, err := r.Test()
		if done || err != nil {
			found, failed = i, err
			break
		}
	}
	var mu sync.Mutex
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	if found < 0 && under > 0 {
		perComm(all, func(of []int) {
			i, err := waitAny(ctx, within, all, of)
			if cancel(); i >= 0 {
				mu.Lock()
				defer mu.Unlock()
				if found < 0 || err == nil {
					found, failed = i, err
				}
			}
		})
	}
	if failed != nil {
		failed = fmt.Errorf("collective: WaitAny, request %d of 0..%d: %w", found, len(all)-1, failed)
	}
	return found, failed
}

// perComm calls f for the requests of each communicator that are not zero, by their numbers, in goroutines of their own
// where there are several.
func perComm(all []Request, f func(of []int)) {
	var comms []*Comm
	var parts [][]int
	for i, r := range all {
		if r.c == nil {
			continue
		}
		at := slices.Index(comms, r.c)
		if at < 0 {
			at = len(comms)
			comms, parts = append(comms, r.c), append(parts, nil)
		}
		parts[at] = append(parts[at], i)
	}
	if len(parts) == 1 {
		f(parts[0])
		return
	}
	var group sync.WaitGroup
	for _, of := range parts {
		group.Go(func() { f(of) })
	}
	group.Wait()
}

// waitAny is WaitAny, of those with these numbers, which are of one communicator. It returns -1 where stop, a context
// made of ctx, has ended first.
func waitAny(ctx, stop context.Context, all []Request, of []int) (int, error) {
	first := all[of[0]]
	if done, err := first.resume(); done || err != nil {
		return of[0], err
	}
	c := first.c
	defer c.End()
	a := engine.Any{}
	found := func() int { return slices.IndexFunc(of, func(i int) bool { return all[i].done() }) }
	a.Reached = func() bool { return found() >= 0 }
	for _, i := range of {
		switch r := all[i]; {
		case r.done():
		case r.isMessage():
			a.Messages = append(a.Messages, r.message().Message())
		default:
			a.Calls = true
		}
	}
	fault, failed := a.Wait(ctx, stop, c.Engine, &c.Waiter)
	at := found()
	switch {
	case failed:
		at = max(at, 0)
		what, undefined := "WaitAny", ""
		if r := all[of[at]]; !r.done() {
			what, undefined = r.doing()
		}
		return of[at], c.failure.during(fault, what, undefined)
	case at < 0:
		return -1, nil
	}
	all[of[at]].counted()
	return of[at], nil
}
