// Perf measures collectives the way nccl-tests does, and prints one row per
// size:
//
//	treerun -np 2 ./examples/perf -o allreduce,broadcast -b 8 -e 64M -f 8
//
// It is a program of its own that uses packages rank and collective as any
// other does; nothing imports it. The rows and the method are those of MPI
// benchmarks of the same kind, so that both can be compared row by row; see
// scripts/compare-peers.sh.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.explain && c.Rank() == 0 {
		fmt.Print(c.Explain())
	}
	switch o.typ {
	case "float":
		return sweep[float32](ctx, c, o, 4)
	case "double":
		return sweep[float64](ctx, c, o, 8)
	default:
		return sweep[int32](ctx, c, o, 4)
	}
}

// sweep measures every operation at every size. Rank 0 prints.
func sweep[T number](ctx context.Context, c *collective.Comm, o *options, width int64) error {
	print := func(string) {}
	if c.Rank() == 0 {
		print = func(line string) { fmt.Println(line) }
	}
	print(header(o, c.Size()))
	m := newMeter[T](c, o, int(o.largest/width))
	for _, op := range o.ops {
		for _, bytes := range sizes(o.smallest, o.largest, o.factor) {
			r, err := m.measure(ctx, op, int(bytes/width))
			if err != nil {
				return err
			}
			print(r.String())
			if op == "barrier" {
				break
			}
		}
	}
	return nil
}

// operations are the names of what can be measured.
var operations = []string{"allreduce", "broadcast", "reduce", "barrier"}

// types are the element types, by the names of C: they stand in the rows.
var types = []string{"float", "double", "int32"}

// options are the settings of one run, the same on all ranks.
type options struct {
	ops               []string
	smallest, largest int64 // bytes
	factor            float64
	warmup, iters     int
	budget            float64 // seconds of timed iterations per size; 0: no limit
	typ               string
	stream            bool // back to back, without a barrier between iterations
	inPlace, check    bool
	explain           bool
}

func parse(args []string) (*options, error) {
	var o options
	var least, most, mode string
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	f.StringSliceVarP(&o.ops, "op", "o", []string{"allreduce"}, "operations: "+strings.Join(operations, ", "))
	f.StringVarP(&least, "begin", "b", "8", "smallest size in bytes; K, M and G are powers of 1024")
	f.StringVarP(&most, "end", "e", "16M", "largest size in bytes")
	f.Float64VarP(&o.factor, "factor", "f", 8, "each size is this many times the one before")
	f.IntVarP(&o.warmup, "warmup", "w", 5, "iterations before the timed ones")
	f.IntVarP(&o.iters, "iterations", "n", 50, "timed iterations per size")
	f.Float64VarP(&o.budget, "time", "T", 2, "seconds of timed iterations per size: fewer iterations for slow sizes, at least 3; 0 means no limit")
	f.StringVarP(&o.typ, "type", "t", "float", "element type: "+strings.Join(types, ", "))
	f.StringVarP(&mode, "mode", "m", "barrier", "barrier: one before each timed iteration; stream: iterations back to back")
	f.BoolVarP(&o.inPlace, "in-place", "i", false, "send and receive in the same buffer")
	f.BoolVarP(&o.check, "check", "c", true, "check the result of one more operation after the timed ones")
	f.BoolVar(&o.explain, "explain", false, "print the plans first")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.stream = mode == "stream"
	var err1, err2 error
	o.smallest, err1 = parseBytes(least)
	o.largest, err2 = parseBytes(most)
	switch {
	case err1 != nil || err2 != nil:
		return nil, errors.Join(err1, err2)
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case mode != "stream" && mode != "barrier":
		return nil, fmt.Errorf("mode %q, want barrier or stream", mode)
	case !slices.Contains(types, o.typ):
		return nil, fmt.Errorf("type %q, want one of %s", o.typ, strings.Join(types, ", "))
	case !(o.factor > 1):
		return nil, fmt.Errorf("factor %g, want more than 1", o.factor)
	case o.iters < 1 || o.warmup < 0 || !(o.budget >= 0):
		return nil, fmt.Errorf("%d iterations after %d in %g s: want at least 1 after 0 in 0 s", o.iters, o.warmup, o.budget)
	case o.smallest > o.largest:
		return nil, fmt.Errorf("the smallest size, %d bytes, is above the largest, %d", o.smallest, o.largest)
	}
	for _, op := range o.ops {
		if !slices.Contains(operations, op) {
			return nil, fmt.Errorf("operation %q, want one of %s", op, strings.Join(operations, ", "))
		}
	}
	return &o, nil
}

// parseBytes reads a size such as 8, 64K or 1.5M.
func parseBytes(s string) (int64, error) {
	unit := 1.0
	number := strings.TrimRight(s, "kKmMgG")
	switch strings.ToUpper(s[len(number):]) {
	case "":
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	default:
		return 0, fmt.Errorf("size %q, want a number and at most one of K, M, G", s)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v*unit >= 1 && v*unit <= 1<<40) {
		return 0, fmt.Errorf("size %q, want 1 byte to 1 TiB", s)
	}
	return int64(v * unit), nil
}

// sizes returns smallest, smallest*factor, ... up to largest.
func sizes(smallest, largest int64, factor float64) []int64 {
	var list []int64
	for b := float64(smallest); b <= float64(largest)*1.0000001; b *= factor {
		list = append(list, int64(b))
	}
	return list
}
