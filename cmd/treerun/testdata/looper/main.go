// Looper makes AllReduce calls until one fails, dense or sparse ones. The chaos tests
// kill its ranks.
//
// It exits with 0 when asked to stop after a number of calls, with 3 when a
// call returned a typed error, with 4 when the error was not typed, with 5 when
// a result was wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/rank"
)

func main() {
	calls := flag.Int("calls", 1<<40, "calls to make")
	early := flag.Int("early", -1, "rank that exits with 0 before Init")
	leave := flag.Int("leave", -1, "rank that closes after its first call")
	odd := flag.Int("odd", -1, "rank that calls Barrier instead")
	until := flag.String("until", "", "file whose appearance ends the loop on all ranks")
	form := flag.String("sparse", "", "make sparse calls, in this form")
	broadcast := flag.Int("broadcast", 0, "make Broadcast calls of this many bytes, from every rank in turn")
	flag.Parse()
	signal.Ignore(syscall.SIGTERM) // who is slow on a busy machine still says what he has learned
	if os.Getenv("TREERUN_RANK") == fmt.Sprint(*early) {
		os.Exit(0)
	}
	if *form != "" {
		os.Exit(runSparse(*calls, *form))
	}
	if *broadcast > 0 {
		os.Exit(runBroadcast(*calls, *broadcast))
	}
	os.Exit(run(*calls, *leave, *odd, *until))
}

// enough is what rank 0 adds to the first element when the loop is to end.
const enough = 1 << 20

func run(calls, leave, odd int, until string) int {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return report(-1, err)
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return report(w.Rank(), err)
	}
	defer c.Close()
	x := make([]float32, 100_000)
	for i := range calls {
		if i == 1 {
			fmt.Printf("ready %d\n", os.Getpid())
			if w.Rank() == leave {
				return 0
			}
			if w.Rank() == odd {
				return report(w.Rank(), collective.Barrier(ctx, c))
			}
		}
		part := x[:1+(i*7919)%len(x)]
		for j := range part {
			part[j] = float32(w.Rank() + 1)
		}
		if w.Rank() == 0 && until != "" && i > 0 {
			if _, err := os.Stat(until); err == nil {
				part[0] += enough
			}
		}
		if err := collective.AllReduce(ctx, c, part, part, collective.Sum); err != nil {
			return report(w.Rank(), err)
		}
		if part[0] > enough {
			return 0
		}
		if want := float32(w.Size() * (w.Size() + 1) / 2); part[0] != want || part[len(part)-1] != want {
			fmt.Fprintf(os.Stderr, "looper: call %d gave %v and %v, want %v\n", i, part[0], part[len(part)-1], want)
			return 5
		}
	}
	return 0
}

// runBroadcast broadcasts from every rank in turn, and compares all that has come.
func runBroadcast(calls, bytes int) int {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return report(-1, err)
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return report(w.Rank(), err)
	}
	defer c.Close()
	x := make([]uint32, bytes/4)
	for i := range calls {
		if i == 1 {
			fmt.Printf("ready %d\n", os.Getpid())
		}
		if w.Rank() == i%w.Size() {
			for j := range x {
				x[j] = uint32(i + j)
			}
		}
		if err := collective.Broadcast(ctx, c, x, x, i%w.Size()); err != nil {
			return report(w.Rank(), err)
		}
		for j := range x {
			if x[j] != uint32(i+j) {
				fmt.Fprintf(os.Stderr, "looper: call %d gave %d in element %d, want %d\n", i, x[j], j, uint32(i+j))
				return 5
			}
		}
	}
	return 0
}

// runSparse makes one sparse call after the other: there is hardly a moment at which
// a rank is in none.
func runSparse(calls int, name string) int {
	ctx := context.Background()
	form, err := sparse.ParseForm(name)
	if err != nil {
		return report(-1, err)
	}
	w, err := rank.Init(ctx)
	if err != nil {
		return report(-1, err)
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return report(w.Rank(), err)
	}
	defer c.Close()
	const block, elements = 256, 1 << 20
	send, recv := make([]float32, elements), make([]float32, elements)
	for i := range send {
		if b := i / block; b%4 == 0 || b%17 == w.Rank() {
			send[i] = float32(w.Rank() + 1)
		}
	}
	for i := range calls {
		if i == 1 {
			fmt.Printf("ready %d rank %d\n", os.Getpid(), w.Rank())
		}
		if _, err := sparse.AllReduce(ctx, c, send, recv, collective.Sum, sparse.Use(form), sparse.BlockSize(block)); err != nil {
			return report(w.Rank(), err)
		}
		if want := float32(w.Size() * (w.Size() + 1) / 2); recv[0] != want || recv[4*block] != want || recv[17*block+1] != 1 {
			fmt.Fprintf(os.Stderr, "looper: call %d gave %v, %v and %v\n", i, recv[0], recv[4*block], recv[17*block+1])
			return 5
		}
	}
	return 0
}

// report prints an error with the time, and returns the exit code for it.
func report(r int, err error) int {
	var lost *collective.RankError
	var early *rank.Error
	switch {
	case errors.As(err, &lost):
		fmt.Fprintf(os.Stderr, "looper: rank %d: RankError of %d at %d: %v\n", r, lost.Rank, time.Now().UnixMicro(), err)
		return 3
	case errors.As(err, &early):
		fmt.Fprintf(os.Stderr, "looper: rank %d: Error of %d at %d: %v\n", r, early.Rank, time.Now().UnixMicro(), err)
		return 3
	}
	fmt.Fprintf(os.Stderr, "looper: rank %d: untyped error %T: %v\n", r, err, err)
	return 4
}
