package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/cmd/treerun/internal/bench/tuner"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
)

// points is where the ranks' findings go when shapes of plan are compared: it is
// the Writer of selfrun, and prints each as it comes.
type points struct {
	out      io.Writer
	np       int
	cases    []suite.Case
	tuner    *tuner.Tuner // nil: explain
	progress *progress

	rest []byte // of a line that is not complete
	seen int
}

// shapes is the subcommand with --tune or --explain.
func shapes(c *command, cases []suite.Case) (int, error) {
	o, np := c.Options, c.np
	p := &points{out: os.Stdout, np: np, cases: cases}
	file, err := "", error(nil)
	if o.Tune {
		p.tuner = tuner.New(np, cmdline.UsableCores())
		file, err = tuner.File(np, cmdline.UsableCores())
	} else if !c.place.Elsewhere() {
		err = tuner.Check(np, cmdline.UsableCores())
	}
	if err != nil {
		return 0, err
	}
	p.progress = progressOnTerminal()
	p.show()
	code, err := c.run(p)
	p.progress.stop()
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader has seen enough
		return exitcode.Signal(syscall.SIGPIPE), nil
	case err != nil || code != 0:
		return code, err
	case p.seen < len(cases):
		return 0, fmt.Errorf("bench: the ranks have ended after %d of %d sizes", p.seen, len(cases))
	case !o.Tune:
		return 0, nil
	}
	if err := p.tuner.Store(file); err != nil {
		return 0, exitcode.Errorf(exitcode.Internal, "bench: --tune: %w", err)
	}
	_, err = fmt.Fprintf(p.out, "# written to %s\n# jobs of %d ranks on this host go by it; TREERUN_TUNE=off makes them not to\n", file, np)
	return 0, err
}

// Write implements io.Writer.
func (p *points) Write(b []byte) (int, error) { return eachLine(&p.rest, b, p.take) }

// take reads one line of rank 0.
func (p *points) take(line []byte) error {
	rec, err := suite.ParseRecord(line)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if rec.Point == nil || p.seen == len(p.cases) || !p.cases[p.seen].MatchesPoint(rec.Point, p.np) {
		return fmt.Errorf("bench: rank 0 sent %s, which is not size %d of %d", line, p.seen+1, len(p.cases))
	}
	text := ""
	if p.tuner == nil {
		text = tuner.Explanation(rec.Point)
	} else {
		chosen, err := p.tuner.Add(rec.Point)
		if err != nil {
			return err
		}
		if p.seen == 0 || p.cases[p.seen-1].Name != rec.Point.Collective {
			text = tuner.Head(rec.Point)
		}
		text += tuner.Line(rec.Point, chosen)
	}
	p.seen++
	p.progress.hide()
	if _, err := io.WriteString(p.out, text); err != nil {
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
