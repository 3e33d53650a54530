// Shutdown counts steps until SIGTERM. Then the ranks agree on the step after which they stop, save the number of
// steps, and leave with 0. When they start again, they continue from there.
//
//	treerun -np 4 --sigterm-exit-code 0 ./examples/shutdown --state steps
//
// Each rank gets SIGTERM at another moment. A rank that left at once would leave the others in the middle of a call.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	state := flag.String("state", "", "keep the number of steps in this `FILE`")
	flag.Parse()
	if err := run(context.Background(), *state); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, state string) error {
	// This context is not for calls: its end would end the communicator on all ranks.
	terminated, _ := signal.NotifyContext(ctx, syscall.SIGTERM)
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	return errors.Join(count(ctx, terminated, c, state), c.Close())
}

// count makes steps until a rank gets SIGTERM.
func count(ctx, terminated context.Context, c *collective.Comm, state string) (err error) {
	step := 0
	if text, err := os.ReadFile(state); err == nil && c.Rank() == 0 {
		fmt.Sscan(string(text), &step)
	}
	if step, err = collective.AllReduceValue(ctx, c, step, collective.Max); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println("begins after", step, "steps")
	}
	for leave := 0; leave == 0; step++ {
		time.Sleep(10 * time.Millisecond) // the work of a step
		if terminated.Err() != nil {
			leave = 1
		}
		if leave, err = collective.AllReduceValue(ctx, c, leave, collective.Max); err != nil {
			return err
		}
	}
	fmt.Printf("rank %d leaves after %d steps\n", c.Rank(), step)
	if c.Rank() == 0 && state != "" {
		return os.WriteFile(state, fmt.Appendln(nil, step), 0o644)
	}
	return nil
}
