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
	flag string
	made bool // it was not there before
}

func create(flag, name string) (*file, error) {
	_, missing := os.Lstat(name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", flag, err)
	}
	return &file{f, flag, missing != nil}, nil
}

// open creates the files of the command line.
func (r *results) open(o *meter.Options) (err error) {
	switch o.JSON {
	case "":
	case "-":
		r.json = &file{File: os.Stdout, flag: "--json"}
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

// clear removes what an earlier command has written; a device has no length.
func (f *file) clear() error {
	if err := f.Truncate(0); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// drop closes a file in which nothing has been written, and removes it if it was made for that.
func (f *file) drop() error {
	if f == nil || f.File == os.Stdout {
		return nil
	}
	err := f.Close()
	if f.made {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
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
	r.progress.show("")
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
		if len(r.rows) == 1 && r.json.File != os.Stdout {
			err = r.json.clear()
		}
		if err == nil {
			err = json.NewEncoder(r.json).Encode(row)
		}
		if err != nil {
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

// show tells what comes next.
func (r *results) show() {
	if n := r.done(); n < len(r.cases) {
		c := r.cases[n]
		r.progress.show(fmt.Sprintf("row %d of %d, %s of %d bytes", n+1, len(r.cases), c.Name, c.Bytes))
	}
}

// close draws the picture and closes the files, of which those that would be
// empty are removed.
func (r *results) close() error {
	if len(r.rows) == 0 {
		return errors.Join(r.json.drop(), r.plot.drop())
	}
	var err error
	if r.plot != nil {
		svg, failed := picture(r.rows)
		if failed == nil {
			failed = r.plot.clear()
		}
		if failed == nil {
			_, failed = r.plot.Write(svg)
		}
		err = named("bench: --plot", errors.Join(failed, r.plot.Close()))
	}
	if r.json != nil && r.json.File != os.Stdout {
		err = errors.Join(err, named("bench: --json", r.json.Close()))
	}
	return err
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
