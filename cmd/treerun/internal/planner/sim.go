package planner

import (
	"fmt"
	"io"
	"strconv"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/machines"
)

const simHelp = `treerun sim predicts the table of nccl-tests for a graph, without running
anything.

usage:
  treerun sim --graph FILE|MACHINE [-b 8] [-e 1G] [-f 2] [flags]

flags:
%s
The predicted time has the rates and latencies of the graph, chunks of 32,
128 or 512 KiB, whichever is best, in 8 slots per link, and 0.15 us per step. algbw is bytes per time, of
all calls in flight together; busbw is algbw times the factor of nccl-tests.

machines:
%s
`

// sweep is the sizes of a table and the calls in flight.
type sweep struct {
	begin, end size
	factor     float64
	inFlight   []int
}

// Sim runs the subcommand sim with the arguments after its name.
func Sim(w io.Writer, args []string) error {
	r, help := &request{}, false
	s := sweep{begin: 8, end: 1 << 30}
	f := newFlags("sim", &r.graphName, &help)
	f.VarP(&s.begin, "begin", "b", "smallest message; K, M and G are powers of 1024")
	f.VarP(&s.end, "end", "e", "largest message")
	f.Float64VarP(&s.factor, "factor", "f", 2, "every message is `F` times as large as the one before")
	f.IntSliceVar(&s.inFlight, "inflight", []int{1}, "calls that are issued at once, waited for together: `N`,...")
	r.register(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if help {
		_, err := fmt.Fprintf(w, simHelp, f.FlagUsages(), machines.List())
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := r.resolve(); err != nil {
		return err
	}
	return s.print(w, r)
}

const mostInFlight = 1000

func (s *sweep) check() error {
	if s.begin > s.end {
		return usage("-b %s is larger than -e %s", &s.begin, &s.end)
	}
	if !(s.factor >= 1.01 && s.factor <= 1e6) {
		return usage("-f %v: want a factor from 1.01 to 1000000", s.factor)
	}
	if len(s.inFlight) == 0 {
		return usage("--inflight: want at least one number")
	}
	for _, n := range s.inFlight {
		if n < 1 || n > mostInFlight {
			return usage("--inflight %d: want numbers from 1 to %d", n, mostInFlight)
		}
	}
	return nil
}

// sizes returns the sizes of the messages, whole floats where they can be.
func (s *sweep) sizes() []int64 {
	var list []int64
	for v := float64(s.begin); v <= float64(s.end); v *= s.factor {
		n := int64(v)
		if n > 4 {
			n &^= 3
		}
		if len(list) == 0 || n > list[len(list)-1] {
			list = append(list, n)
		}
	}
	return list
}

// print writes the table, a row as soon as it is known.
func (s *sweep) print(w io.Writer, r *request) error {
	list, err := r.candidates()
	if err != nil {
		return err
	}
	c, err := r.certify()
	if err != nil {
		return err
	}
	for _, line := range []string{
		fmt.Sprintf("# treerun sim: predicted, %s on %s, algorithm %s", r.kind, title(r.g), r.algorithm),
		fmt.Sprintf("# bound %.4g GB/s: %s", c.rate, c.words),
		fmt.Sprintf("# %12s  %12s  %8s  %6s  %4s  %8s  %12s  %10s  %10s  %s", "size", "count", "type", "redop", "root", "inflight", "time", "algbw", "busbw", "algorithm"),
		fmt.Sprintf("# %12s  %12s  %8s  %6s  %4s  %8s  %12s  %10s  %10s", "(B)", "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)"),
	} {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	for _, bytes := range s.sizes() {
		d, err := r.cheapest(list, bytes)
		if err != nil {
			return err
		}
		for _, n := range s.inFlight {
			line, err := d.row(r, n)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// row prices n calls at once. The algorithm is the cheapest for one.
func (d *design) row(r *request, n int) (string, error) {
	us := d.predictedUs
	if n > 1 {
		var err error
		if us, err = d.price(r, n); err != nil {
			return "", err
		}
	}
	redop := "sum"
	if r.kind == plan.Broadcast || r.kind == plan.AllGather {
		redop = "none"
	}
	typ, elements := "float32", d.bytes/4
	if d.bytes < 4 {
		typ, elements = "int8", d.bytes
	}
	root := strconv.Itoa(r.planRoot())
	alg := algGBs(d.bytes*int64(n), us)
	return fmt.Sprintf("  %12d  %12d  %8s  %6s  %4s  %8d  %12.2f  %10.3f  %10.3f  %s",
		d.bytes, elements, typ, redop, root, n, us, alg, alg*busFactor(r.kind, r.g.Ranks), d.used()), nil
}

// used names the algorithm and how many of its trees have a share.
func (d *design) used() string {
	used := 0
	for _, s := range d.shares {
		if s > 0 {
			used++
		}
	}
	if len(d.strands) == 1 {
		return d.algorithm
	}
	return fmt.Sprintf("%s %d/%d", d.algorithm, used, len(d.strands))
}

// busFactor is the part of the message that the links of one rank carry one
// way, as nccl-tests defines it.
func busFactor(kind plan.Kind, n int) float64 {
	switch kind {
	case plan.AllReduce:
		return 2 * float64(n-1) / float64(n)
	case plan.AllGather, plan.ReduceScatter:
		return float64(n-1) / float64(n)
	}
	return 1
}
