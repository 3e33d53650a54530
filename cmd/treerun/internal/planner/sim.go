package planner

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/machines"
)

const simHelp = `treerun sim predicts the table of nccl-tests for a graph, without running
anything.

usage:
  treerun sim --graph FILE|MACHINE [-b 8] [-e 1G] [-f 2] [--format text|json] [flags]

flags:
%s
The predicted time has the rates and latencies of the graph, chunks of 32,
128 or 512 KiB, whichever is best, in 8 slots per link, and 0.15 us per step.
algbw is bytes per time, of all calls in flight together; busbw is algbw times
the factor of nccl-tests. One rank sends nothing: both are 0.
json is an object a line: collective np bytes count type op root inflight
algorithm trees trees_used predicted_us algbw_gbs busbw_gbs
bound_gbytes_per_second (0: there is none, or it is not known), and note where
an option is not kept.

treerun topo --help has the form of a graph file, and more about the machines:
%s`

// sweep is the sizes of a table and the calls in flight.
type sweep struct {
	begin, end size
	factor     float64
	inFlight   []int
	format     string
}

const mostInFlight = 1000

// Sim runs the subcommand sim with the arguments after its name.
func Sim(w io.Writer, args []string) error {
	r, help := &request{}, false
	s := sweep{begin: 8, end: 1 << 30, factor: 2, inFlight: []int{1}, format: "text"}
	f := newFlags("sim", &r.graphName, &help)
	f.VarP(&s.begin, "begin", "b", "smallest message; K, M, G and T are powers of 1024")
	f.VarP(&s.end, "end", "e", "largest message")
	f.VarP(real(&s.factor, 1.01, 1e6), "factor", "f", "every message is `F` times as large as the one before")
	f.Var(&counts{&s.inFlight, mostInFlight}, "inflight", "calls that are issued at once, waited for together: `N`,...")
	f.Var(&choice{&s.format, []string{"text", "json"}}, "format", "`FORMAT`: text or json")
	r.register(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if help {
		_, err := fmt.Fprintf(w, simHelp, f.FlagUsages(), machines.List())
		return err
	}
	if s.begin > s.end {
		return usage("-b %s is larger than -e %s", &s.begin, &s.end)
	}
	if err := r.resolve(f); err != nil {
		return err
	}
	return s.print(w, r)
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
	if s.format == "text" {
		if err := heading(w, r, list, c); err != nil {
			return err
		}
	}
	for _, bytes := range s.sizes() {
		d, err := r.cheapest(list, bytes)
		if err != nil {
			return err
		}
		for _, n := range s.inFlight {
			row, err := d.row(r, c, n)
			if err != nil {
				return err
			}
			line := row.text(d)
			if s.format == "json" {
				if line, err = row.json(); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// heading writes what stands above the rows.
func heading(w io.Writer, r *request, list []candidate, c certificate) error {
	lines := []string{fmt.Sprintf("# treerun sim: predicted, %s on %s, algorithm %s", r.kind, title(r.g), r.algorithm)}
	for _, note := range r.leftOut() {
		lines = append(lines, "# note: "+note)
	}
	for i := range list {
		for _, note := range r.unkept(&list[i]) {
			lines = append(lines, "# note: "+note)
		}
	}
	lines = append(lines,
		"# "+c.headline(r),
		fmt.Sprintf("# %12s  %12s  %8s  %6s  %4s  %8s  %12s  %10s  %10s  %s", "size", "count", "type", "redop", "root", "inflight", "time", "algbw", "busbw", "algorithm"),
		fmt.Sprintf("# %12s  %12s  %8s  %6s  %4s  %8s  %12s  %10s  %10s", "(B)", "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)"))
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// simRow is a row of the table; the names of its JSON form are those of bench
// where they mean the same.
type simRow struct {
	Collective  string  `json:"collective"`
	Ranks       int     `json:"np"`
	Bytes       int64   `json:"bytes"`
	Count       int64   `json:"count"`
	Type        string  `json:"type"`
	Op          string  `json:"op"`
	Root        int     `json:"root"`
	InFlight    int     `json:"inflight"`
	Algorithm   string  `json:"algorithm"`
	Trees       int     `json:"trees"` // or rings and directions
	TreesUsed   int     `json:"trees_used"`
	PredictedUs float64 `json:"predicted_us"`
	AlgBW       float64 `json:"algbw_gbs"`
	BusBW       float64 `json:"busbw_gbs"`
	Bound       float64 `json:"bound_gbytes_per_second"`
	Note        string  `json:"note,omitempty"`
}

// row prices n calls at once. The algorithm is the cheapest for one.
func (d *design) row(r *request, c certificate, n int) (simRow, error) {
	us := d.predictedUs
	if n > 1 {
		var err error
		if us, err = d.price(r, n); err != nil {
			return simRow{}, err
		}
	}
	row := simRow{
		Collective: r.kind.String(), Ranks: r.g.Ranks, Bytes: d.bytes, Count: d.bytes / 4, Type: "float32", Op: "sum", Root: r.planRoot(),
		InFlight: n, Algorithm: d.algorithm, Trees: len(d.strands), TreesUsed: d.treesUsed(), PredictedUs: us,
		Bound: c.rate, Note: strings.Join(r.unkept(d.candidate), "; "),
	}
	if row.Ranks > 1 {
		row.AlgBW = algGBs(d.bytes*int64(n), us)
	}
	row.BusBW = row.AlgBW * busFactor(r.kind, r.g.Ranks)
	if r.kind == plan.Broadcast || r.kind == plan.AllGather {
		row.Op = "none"
	}
	if d.bytes < 4 {
		row.Type, row.Count = "int8", d.bytes
	}
	return row, nil
}

func (row *simRow) text(d *design) string {
	return fmt.Sprintf("  %12d  %12d  %8s  %6s  %4d  %8d  %12.2f  %10.3f  %10.3f  %s",
		row.Bytes, row.Count, row.Type, row.Op, row.Root, row.InFlight, row.PredictedUs, row.AlgBW, row.BusBW, d.used())
}

func (row *simRow) json() (string, error) {
	line, err := json.Marshal(row)
	return string(line), err
}

// treesUsed is the number of trees that have a share.
func (d *design) treesUsed() int {
	used := 0
	for _, s := range d.shares {
		if s > 0 {
			used++
		}
	}
	return used
}

// used names the algorithm and how many of its trees have a share.
func (d *design) used() string {
	if len(d.strands) == 1 {
		return d.algorithm
	}
	return fmt.Sprintf("%s %d/%d", d.algorithm, d.treesUsed(), len(d.strands))
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
