// Package main measures Figure 2 of the MXNet proposal on this machine, in place of
// eight GPUs: some push-pulls (AllReduces) of one size at once, over a ring, one rank as
// parameter server, and trees by Kernighan and Lin, alone and jointly made. It writes
// docs/results/push-pulls.md and, beside it, what was measured:
//
//	go build -o treerun ./cmd/treerun && go run ./scripts/pushpulls -treerun ./treerun docs/results
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/treerun/treerun/scripts/internal/results"
)

var (
	algorithms = []string{"ring", "star", "kl", "multi"}
	inflights  = []int{1, 50, 150}
)

const (
	ranks  = "8"
	record = "push-pulls.tsv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pushpulls:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("pushpulls", flag.ContinueOnError)
	treerun := f.String("treerun", "", "the executable of treerun; none: write the page again from the record")
	repeat := f.Int("repeat", 5, "repetitions, the algorithms in turns; the median counts")
	largest := f.String("largest", "4M", "largest message")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("usage: pushpulls [-treerun FILE] FOLDER")
	}
	path := filepath.Join(f.Arg(0), record)
	if *treerun != "" {
		text, err := measure(*treerun, *repeat, *largest)
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return results.WriteBeside(path, func(text []byte) (map[string][]byte, error) {
		r, err := results.Parse(text)
		if err != nil {
			return nil, err
		}
		return map[string][]byte{"push-pulls.md": page(r)}, nil
	})
}

// measure runs the algorithms in turns and returns the record.
func measure(treerun string, repeat int, largest string) ([]byte, error) {
	var text []byte
	for _, fact := range results.Machine("") {
		text = append(text, fact.Line()...)
	}
	for rep := 1; rep <= repeat; rep++ {
		for _, n := range inflights {
			for _, a := range algorithms {
				out, err := exec.Command(treerun, "bench", "-np", ranks, "--collective", "allreduce", "--algorithm", a,
					"--inflight", fmt.Sprint(n), "-b", "4K", "-e", largest, "-f", "4", "--in-place=no",
					"--max-seconds", "0.5", "--json", "-").Output()
				if err != nil {
					var failed *exec.ExitError
					if errors.As(err, &failed) {
						err = fmt.Errorf("%w: %s", err, failed.Stderr)
					}
					return nil, fmt.Errorf("%s, %d in flight: %w", a, n, err)
				}
				err = results.Lines(out, func(line []byte) error {
					if len(line) == 0 || line[0] != '{' {
						return nil
					}
					var row struct {
						Bytes  int64   `json:"bytes"`
						NP     int     `json:"np"`
						TimeUs float64 `json:"time_us"`
						Wrong  *int64  `json:"wrong"`
						Plan   string  `json:"plan"`
					}
					if err := json.Unmarshal(line, &row); err != nil {
						return err
					}
					if row.Wrong != nil && *row.Wrong > 0 {
						return fmt.Errorf("%d elements of %d bytes are wrong", *row.Wrong, row.Bytes)
					}
					f := results.Figure{Part: fmt.Sprint(n), Rep: rep, NP: row.NP, Op: "allreduce", Bytes: row.Bytes, Who: a,
						Value: row.TimeUs, Plan: row.Plan, Share: math.NaN()}
					text = append(text, f.Line()...)
					return nil
				})
				if err != nil {
					return nil, fmt.Errorf("%s, %d in flight: %w", a, n, err)
				}
			}
		}
	}
	return text, nil
}

const intro = `# Push-pulls on this machine

Figure 2 of the proposal for MXNet's trees has the time of 1, 50 and 150 push-pulls at once over the size of each, on
eight GPUs. Here it is measured with eight ranks of ` + "`treerun bench --algorithm NAME --inflight N`" + ` in place of
them: "ring" is NCCL's algorithm, "star" the parameter server, "kl" trees by Kernighan and Lin one after the other,
"multi" trees made jointly. The ranks share cores and memory, whose links are all alike, so that neither algorithm has
quicker links to use, as on the DGX-1V of the proposal: what is compared is how often a rank waits, and how much is
copied. The simulated figures are in [simulated.md](simulated.md). ` + "`go run ./scripts/pushpulls`" + ` makes this page.

Times in ms of all calls at once, medians; the quickest of a row is bold.`

// page writes the page.
func page(r *results.Record) []byte {
	p := &results.Page{}
	p.Line("%s", intro)
	for _, n := range inflights {
		p.Line("## %s at once", []string{1: "One", 50: "50", 150: "150"}[n])
		rows := [][]string{append([]string{"size of each"}, algorithms...)}
		var part []*results.Figure
		for i := range r.Figures {
			if r.Figures[i].Part == fmt.Sprint(n) {
				part = append(part, &r.Figures[i])
			}
		}
		for _, bytes := range results.Distinct(part, func(f *results.Figure) int64 { return f.Bytes }) {
			row := []string{results.Size(bytes)}
			times := make([]float64, len(algorithms))
			best := math.Inf(1)
			for i, a := range algorithms {
				var list []*results.Figure
				for _, f := range part {
					if f.Bytes == bytes && f.Who == a {
						list = append(list, f)
					}
				}
				times[i] = results.MedianOf(list) / 1e3
				best = min(best, times[i])
			}
			for _, t := range times {
				text := results.Number(t)
				if t == best {
					text = "**" + text + "**"
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
		p.Table(rows)
	}
	var rows [][]string
	for _, f := range r.Facts {
		if f.Value != "" {
			rows = append(rows, []string{f.Name, f.Value})
		}
	}
	p.Table(append([][]string{{"run", ""}}, rows...))
	return p.Bytes()
}
