package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
)

// results is where the ranks' findings go: it is the Writer of launch.RunSelf, and
// takes a meter.Record per line.
type results struct {
	np       int
	cases    []meter.Case
	explain  io.Writer // where points go, which come in place of rows; nil: rows are measured
	table    *table    // nil: not printed
	json     *file     // nil: not written
	plot     *file     // nil: not drawn
	progress *progress // nil: not shown

	rest []byte // of a line that is not complete
	rows []*meter.Row

	digests, algorithms []string // of the plans that ran, or would run, and their makers
}

// file is one that the command line asked for. It is opened before the ranks
// start, so that a wrong name is found then. What stands in it is replaced when
// there is something to write, and a file that was there is never removed.
type file struct {
	*os.File
	flag, name string
	was        bool // there before
	begun      bool
}

func create(flag, name string) (*file, error) {
	_, missing := os.Lstat(name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", flag, err)
	}
	return &file{File: f, flag: flag, name: name, was: missing == nil}, nil
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = true
		if err := f.Truncate(0); err != nil && f.name != "-" && !errors.Is(err, syscall.EINVAL) { // a device has no length
			return 0, err
		}
	}
	return f.File.Write(p)
}

// open creates the files of the command line.
func (r *results) open(o *meter.Options) (err error) {
	switch o.JSON {
	case "":
	case "-":
		r.json = &file{File: os.Stdout, flag: "--json", name: "-", begun: true}
	default:
		if r.json, err = create("--json", o.JSON); err != nil {
			return err
		}
	}
	if o.Plot != "" {
		if r.plot, err = create("--plot", o.Plot); err != nil {
			return errors.Join(err, r.json.drop())
		}
	}
	return nil
}

// drop closes and removes a file in which nothing has been written.
func (f *file) drop() error {
	if f == nil || f.name == "-" {
		return nil
	}
	if f.was {
		return f.Close()
	}
	return errors.Join(f.Close(), os.Remove(f.name))
}

// Write implements io.Writer.
func (r *results) Write(p []byte) (int, error) {
	text := append(r.rest, p...)
	for {
		line, after, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			break
		}
		if err := r.take(line); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		text = after
	}
	r.rest = bytes.Clone(text)
	return len(p), nil
}

// done is how many cases have been measured.
func (r *results) done() int { return len(r.digests) }

// take reads one line of rank 0.
func (r *results) take(line []byte) error {
	rec, err := meter.ParseRecord(line)
	if err != nil {
		return err
	}
	n := r.done()
	if rec.Ranks != nil && n == 0 {
		if r.table != nil {
			err = named("print the table", r.table.Begin(rec.Ranks))
		}
		r.show()
		return err
	}
	if n == len(r.cases) || (rec.Point != nil) != (r.explain != nil) || !rec.Matches(&r.cases[n], r.np) {
		return fmt.Errorf("rank 0 sent %s, which is not row %d of %d", line, n+1, len(r.cases))
	}
	r.progress.hide()
	if p := rec.Point; p != nil {
		r.digests, r.algorithms = append(r.digests, p.Digest), append(r.algorithms, p.Chosen)
		_, err := io.WriteString(r.explain, explanation(p))
		r.show()
		return named("print what was measured", err)
	}
	row := rec.Row
	r.digests, r.algorithms = append(r.digests, row.Digest), append(r.algorithms, row.Algorithm)
	r.rows = append(r.rows, row)
	if r.table != nil {
		if err := r.table.Add(row); err != nil {
			return named("print the table", err)
		}
	}
	if r.json != nil {
		if err := json.NewEncoder(r.json).Encode(row); err != nil {
			return named("--json", err)
		}
	}
	r.show()
	return nil
}

// named says what could not be done.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// show tells the progress line what comes next.
func (r *results) show() {
	n := r.done()
	if n == len(r.cases) {
		r.progress.stop()
		return
	}
	c := r.cases[n]
	what := fmt.Sprintf("%s of %d bytes", c.Name, c.Bytes)
	if c.Empty {
		what = c.Name
	}
	r.progress.show(fmt.Sprintf("row %d of %d, %s", n+1, len(r.cases), what))
}

// close draws the picture and closes the files, of which those that would be
// empty are removed.
func (r *results) close() error {
	if len(r.rows) == 0 {
		return errors.Join(r.json.drop(), r.plot.drop())
	}
	var errs []error
	if r.plot != nil {
		svg, err := picture(r.rows)
		if err == nil {
			_, err = r.plot.Write(svg)
		}
		if err = errors.Join(err, r.plot.Close()); err != nil {
			errs = append(errs, fmt.Errorf("bench: --plot: %w", err))
		}
	}
	if r.json != nil && r.json.name != "-" {
		if err := r.json.Close(); err != nil {
			errs = append(errs, fmt.Errorf("bench: --json: %w", err))
		}
	}
	return errors.Join(errs...)
}

// wrong counts the wrong elements, and the rows that have some.
func (r *results) wrong() (elements int64, rows int) {
	for _, row := range r.rows {
		if row.Wrong != nil && *row.Wrong > 0 {
			elements += *row.Wrong
			rows++
		}
	}
	return elements, rows
}
