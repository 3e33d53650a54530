package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// points is where the ranks' findings go when shapes of plan are compared: it is
// the Writer of launch.RunSelf, and prints each as it comes.
type points struct {
	out      io.Writer
	np       int
	cases    []meter.Case
	progress *progress

	rest []byte // of a line that is not complete
	seen int

	digests, chosen []string // of the plans that a job takes
}

// explain is the subcommand with --explain.
func explain(c *command, cases []meter.Case) (int, error) {
	p := &points{out: os.Stdout, np: c.np, cases: cases}
	p.progress = progressOnTerminal()
	p.show()
	code, err := c.run(p)
	p.progress.stop()
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader has seen enough
		return cmdline.SignalCode(syscall.SIGPIPE), nil
	case err != nil || code != 0:
		return code, err
	case p.seen < len(cases):
		return 0, fmt.Errorf("bench: the ranks have ended after %d of %d sizes", p.seen, len(cases))
	}
	return 0, c.planning.Unserved(p.digests, p.chosen)
}

// Write implements io.Writer.
func (p *points) Write(b []byte) (int, error) { return eachLine(&p.rest, b, p.take) }

// take reads one line of rank 0.
func (p *points) take(line []byte) error {
	rec, err := meter.ParseRecord(line)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if rec.Point == nil || p.seen == len(p.cases) || !p.cases[p.seen].MatchesPoint(rec.Point, p.np) {
		return fmt.Errorf("bench: rank 0 sent %s, which is not size %d of %d", line, p.seen+1, len(p.cases))
	}
	p.seen++
	p.digests, p.chosen = append(p.digests, rec.Point.Digest), append(p.chosen, rec.Point.Chosen)
	p.progress.hide()
	if _, err := io.WriteString(p.out, explanation(rec.Point)); err != nil {
		return fmt.Errorf("bench: print what was measured: %w", err)
	}
	p.show()
	return nil
}

// show tells the progress line what comes next.
func (p *points) show() {
	if p.seen < len(p.cases) {
		c := p.cases[p.seen]
		p.progress.show(fmt.Sprintf("size %d of %d, %s of %d bytes", p.seen+1, len(p.cases), c.Name, c.Bytes))
	}
}

// explanation is a point as text.
func explanation(p *meter.Point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", p.Collective)
	if p.Bytes > 0 {
		size := cmdline.Size(p.Bytes)
		fmt.Fprintf(&b, " of %s (%d bytes)", &size, p.Bytes)
	}
	width := 14
	for _, c := range p.Candidates {
		width = max(width, len(c.Plan))
	}
	fmt.Fprintf(&b, " on %d ranks\n%*s  %14s  %14s\n", p.NP, width, "plan", "predicted (us)", "measured (us)")
	quickest := p.Candidates[0]
	for _, c := range p.Candidates {
		predicted, note := "-", ""
		if c.PredictedUs != nil {
			predicted = fmt.Sprintf("%.2f", *c.PredictedUs)
		}
		if c.Plan == p.Chosen {
			note = "  chosen by " + p.By
		}
		if c.Us < quickest.Us {
			quickest = c
		}
		fmt.Fprintf(&b, "%*s  %14s  %14.2f%s\n", width, c.Plan, predicted, c.Us, note)
	}
	fmt.Fprintf(&b, "the quickest was %s\n%s\n", quickest.Plan, p.Links)
	return b.String()
}
