//go:build linux

package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/rank"
)

// runRank measures all cases of o as one rank of a job. Rank 0 writes a Record per line to w: the ranks first, then
// every row as soon as it is known; where algorithms are compared only the rows.
func runRank(ctx context.Context, o *Options, w io.Writer) (err error) {
	world, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if world.Rank() != 0 {
		w = io.Discard
	}
	out := json.NewEncoder(w)
	emit := func(r Record) error {
		if err := out.Encode(r); err != nil {
			return fmt.Errorf("send the results to the launcher: %w", err)
		}
		return nil
	}
	row := func(r *Row) error { return emit(Record{Row: r}) }
	if o.Explain > 0 {
		return explain(ctx, world, o, row)
	}
	serves := world.Rank() >= world.Size()-o.Aggregators
	var dev *cuda.Device
	if o.Device == CUDA && !serves {
		if dev, err = deviceOf(world); err != nil {
			return err
		}
	}
	c, err := collective.New(ctx, world)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ranks, err := gather(ctx, c, dev, serves)
	if err != nil {
		return err
	}
	if err := emit(Record{Ranks: ranks}); err != nil {
		return err
	}
	if o.Aggregators == 0 {
		return measureAll(ctx, c, c, dev, o, row)
	}
	return withServers(ctx, c, serves, func(workers *collective.Comm) error {
		return measureAll(ctx, workers, c, dev, o, row)
	})
}

// withServers runs body on the ranks of c that do not serve, with a communicator of these ranks, and serves on the
// others meanwhile.
func withServers(ctx context.Context, c *collective.Comm, serves bool,
	body func(workers *collective.Comm) error) error {
	color := 0
	if serves {
		color = 1
	}
	own, err := c.Split(ctx, color, 0)
	if err != nil {
		return err
	}
	if serves {
		err = sparse.Serve(ctx, c)
	} else if err = body(own); err == nil {
		err = sparse.StopServing(ctx, c)
	}
	return errors.Join(err, own.Close())
}

// measureAll measures all cases of o on a communicator, with data on this rank's device, nil for the host, and calls
// emit with every row, on every rank. All ranks call it together. Sparse calls run on another communicator, which has
// the same ranks first and may have more that serve, or on the same.
func measureAll(ctx context.Context, c, sparseOn *collective.Comm, dev *cuda.Device, o *Options,
	emit func(*Row) error) error {
	cases := o.cases(c.Size())
	if dev != nil {
		if err := openGPUs(ctx, c, dev); err != nil {
			return err
		}
	}
	s := newSession(c, sparseOn, o, dev)
	for len(cases) > 0 {
		n := 1 // number of cases of the same type
		for n < len(cases) && cases[n].Type == cases[0].Type {
			n++
		}
		if err := measureByType[cases[0].Type.Name](ctx, s, cases[:n], emit); err != nil {
			return err
		}
		debug.FreeOSMemory() // the next type has buffers of its own
		cases = cases[n:]
	}
	return nil
}

// measureByType measures cases that have the same type, by its name.
var measureByType = map[string]func(context.Context, *session, []Case, func(*Row) error) error{
	"int8": measureRows[int8], "uint8": measureRows[uint8], noType.Name: measureRows[uint8],
	"int16": measureRows[int16], "uint16": measureRows[uint16], "int32": measureRows[int32], "uint32": measureRows[uint32],
	"int64": measureRows[int64], "uint64": measureRows[uint64], "float32": measureRows[float32],
	"float64": measureRows[float64], "float16": measureRows[collective.Float16],
	"bfloat16": measureRows[collective.BFloat16],
}

func measureRows[T collective.Number](ctx context.Context, s *session, cases []Case,
	emit func(*Row) error) (err error) {
	m, err := newMeter[T](s, cases)
	if err != nil {
		return fmt.Errorf("rank %d: buffers of %s: %w", s.c.Rank(), cases[0].Type.Name, err)
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for i := range cases {
		k := &cases[i]
		r, err := m.measure(ctx, k)
		if err != nil {
			return fmt.Errorf("%s of %d bytes, %s: %w", k.Name, k.Bytes, k.Type.Name, err)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// gather returns the processes of the ranks.
func gather(ctx context.Context, c *collective.Comm, dev *cuda.Device, serves bool) ([]Process, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host: %w", err)
	}
	me := Process{PID: os.Getpid(), Host: host, Device: processor()}
	switch {
	case serves:
		me.Device = "none: this rank only aggregates"
	case dev != nil:
		me.Device = fmt.Sprintf("[%s] %s", dev.PCI(), dev.Name())
	}
	return collective.AllGatherObject(ctx, c, me)
}

// processor names the processor of this host.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // without it the architecture has to do
	_, after, _ := strings.Cut(string(text), "model name")
	name, _, _ := strings.Cut(after, "\n")
	return cmp.Or(strings.Trim(name, "\t :"), runtime.GOARCH)
}
