// Messages is the program of scripts/faults/messages.sh: ranks that exchange messages as MPI programs do, or with
// common mistakes. Its argument names the exchange; "many" is followed by a number.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	. "github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	defer func() { check(w.Close()) }()
	c, err := New(ctx, w)
	check(err)
	defer func() { check(c.Close()) }()
	check(map[string]func(context.Context, *Comm) error{
		"many": many, "exchange": exchange, "farm": farm, "tags": tags, "modulo": modulo, "short": short,
	}[os.Args[1]](ctx, c))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// many sends many messages to a rank that receives them later, after a Barrier.
func many(ctx context.Context, c *Comm) error {
	n, err := strconv.Atoi(os.Args[2])
	for i := 0; i < n && c.Rank() == 1; i++ {
		err = errors.Join(err, Send(ctx, c, []int{i}, 0, 0))
	}
	err = errors.Join(err, Barrier(ctx, c))
	x := []int{0}
	for i := 0; i < n && c.Rank() == 0; i++ {
		if _, e := Recv(ctx, c, x, 1, 0); e != nil || x[0] != i {
			return fmt.Errorf("message %d is %d: %w", i, x[0], e)
		}
	}
	return err
}

// exchange makes all ranks send 16 messages of 60 KiB to all before they receive.
func exchange(ctx context.Context, c *Comm) error {
	x := make([]byte, 60<<10)
	for i := range 16 * c.Size() {
		if err := Send(ctx, c, x, i%c.Size(), 0); err != nil {
			return err
		}
	}
	for i := range 16 * c.Size() {
		if _, err := Recv(ctx, c, x, i%c.Size(), 0); err != nil {
			return err
		}
	}
	return nil
}

// farm runs a farmer and its workers, of which rank 2 computes for a long time.
func farm(ctx context.Context, c *Comm) error {
	x := make([]float64, 3)
	if c.Rank() > 0 {
		if c.Rank() == 2 {
			time.Sleep(time.Minute)
		}
		err := Send(ctx, c, x, 0, 1)
		_, again := Recv(ctx, c, x, 0, 0)
		return errors.Join(err, again)
	}
	for range c.Size() - 1 {
		if _, err := Recv(ctx, c, x, AnySource, AnyTag); err != nil {
			return err
		}
	}
	return nil
}

// tags receives with a different tag from the one that was sent.
func tags(ctx context.Context, c *Comm) error {
	if c.Rank() == 0 {
		return errors.Join(Send(ctx, c, []float64{1}, 1, 3), Barrier(ctx, c))
	}
	_, err := Recv(ctx, c, []float64{0}, 0, 9)
	return err
}

// modulo receives from (rank-1) % size, which is -1 on rank 0.
func modulo(ctx context.Context, c *Comm) error {
	err := Send(ctx, c, []int{c.Rank()}, (c.Rank()+1)%c.Size(), 0)
	_, wrong := Recv(ctx, c, []int{0}, (c.Rank()-1)%c.Size(), 0)
	return errors.Join(err, wrong)
}

// short receives a message that is shorter than its slice.
func short(ctx context.Context, c *Comm) error {
	buf := make([]float64, 8)
	m, err := StartRecv(c, buf, AnySource, AnyTag)
	if err = errors.Join(err, Send(ctx, c, buf[:7], 1-c.Rank(), 5), m.Wait(ctx)); err != nil {
		return err
	}
	if st := m.Status(); st != (Status{Source: 1 - c.Rank(), Tag: 5, Count: 7}) {
		return fmt.Errorf("got %v", st)
	}
	return nil
}
