// Close makes the failure that its argument names, and drops the error of Close.
//
//	treerun -np 4 ./scripts/faults/testdata/close leftover; echo $?
//
// See scripts/faults/close.sh and cmd/treerun: TestDroppedClose.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	which := os.Args[1]
	if which == "neither" && w.Rank() == 2 {
		broadcast(ctx, open(ctx, w))
		return
	}
	defer w.Close()
	c := open(ctx, w)
	if which != "unclosed" && which != "panicunclosed" {
		defer c.Close()
	}
	switch which {
	case "droppedclose", "unclosed", "neither":
		broadcast(ctx, c)
	case "split":
		part, err := c.Split(ctx, 0, c.Rank())
		check(err)
		defer part.Close()
		broadcast(ctx, part)
	case "leftover", "leftoverdup":
		if which == "leftoverdup" {
			d, err := c.Dup(ctx)
			check(err)
			defer d.Close()
			c = d
		}
		if c.Rank() > 0 {
			check(collective.Send(ctx, c, []int{c.Rank()}, 0, c.Rank()))
		}
		check(collective.Barrier(ctx, c))
	case "pending":
		_, err := collective.StartRecv(c, make([]int, 1), (c.Rank()+1)%c.Size(), 0)
		check(err)
	case "alone": // a part of one rank, on the last host
		part, err := c.Split(ctx, c.Rank(), 0)
		check(err)
		defer part.Close()
		if c.Rank() == c.Size()-1 {
			check(collective.Send(ctx, part, []int{1}, 0, 0))
		}
	case "aborted": // the others learn of it from Close alone
		check(collective.Barrier(ctx, c))
		time.Sleep(100 * time.Millisecond)
		if c.Rank() == 1 {
			c.Abort(errors.New("on purpose"))
		}
		time.Sleep(100 * time.Millisecond)
	case "handled": // a call has returned the failure: the job does not fail
		err := collective.Barrier(ctx, c)
		if c.Rank() == 1 {
			check(err)
			c.Abort(errors.New("on purpose"))
			break
		}
		for err == nil {
			err = collective.Barrier(ctx, c)
		}
		if !errors.Is(err, collective.ErrAborted) {
			log.Fatalf("Barrier after an Abort: %v", err)
		}
	case "panic", "panicunclosed":
		check(collective.Barrier(ctx, c))
		if c.Rank() == 1 {
			panic("on purpose")
		}
		check(collective.Barrier(ctx, c))
	case "fine":
		check(collective.Barrier(ctx, c))
	default:
		log.Fatalf("what is %q?", which)
	}
	fmt.Println("rank", w.Rank(), "ends")
}

func open(ctx context.Context, w *rank.World) *collective.Comm {
	c, err := collective.New(ctx, w)
	check(err)
	return c
}

// broadcast makes a Broadcast with a different root on rank 2: the call may return before a rank detects the error.
func broadcast(ctx context.Context, c *collective.Comm) {
	x, root := []int{100 + c.Rank()}, 0
	if c.Rank() == 2 {
		root = 2
	}
	check(collective.Broadcast(ctx, c, x, x, root))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
