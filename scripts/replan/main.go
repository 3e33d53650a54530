//go:build linux

// Command replan shows that plans follow a network whose links change. With -treerun it makes hosts of network
// namespaces, runs jobs there while the rate of one card falls and rises, and prints tables. Without, it is a rank of
// such a job: it sums, checks every element, and prints the time of each call. For scripts/replan.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	treerun := flag.String("treerun", "", "the command; none: this is a rank")
	bytes := flag.Int("bytes", 16<<20, "of an AllReduce")
	without := flag.Bool("without", false, "keep the first plans")
	quick := flag.Bool("quick", false, "small and short, to test this program")
	flag.Parse()
	err := error(nil)
	if *treerun != "" {
		err = drive(*treerun, *quick)
	} else {
		err = work(*bytes, *without)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replan:", err)
		os.Exit(1)
	}
}

// work is a rank: it sums until the standard input of rank 0 ends.
func work(bytes int, without bool) error {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	var opts []collective.Option
	if without {
		opts = append(opts, collective.WithoutReplan())
	}
	c, err := collective.New(ctx, w, opts...)
	if err != nil {
		return err
	}
	var ended atomic.Bool
	if w.Rank() == 0 {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			ended.Store(true)
		}()
	}
	x, y := make([]float32, bytes/4), make([]float32, bytes/4)
	n := c.Size()
	for call := 0; y[0] == 0; call++ {
		for i := range x {
			x[i] = float32((i + call) % 1024 * (w.Rank() + 1))
		}
		if x[0] = 0; ended.Load() {
			x[0] = 1
		}
		begin := time.Now()
		if err := collective.AllReduce(ctx, c, x, y, collective.Sum); err != nil {
			return err
		}
		took := time.Since(begin)
		for i, v := range y[1:] {
			if want := float32((i + 1 + call) % 1024 * n * (n + 1) / 2); v != want {
				return fmt.Errorf("call %d on rank %d: element %d is %v, want %v", call, w.Rank(), i+1, v, want)
			}
		}
		if w.Rank() == 0 {
			fmt.Println("call", took.Microseconds())
		}
	}
	return c.Close()
}
