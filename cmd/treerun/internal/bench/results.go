//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// results collects the ranks' results: it is the Writer of launch.RunSelf, and takes a Record per line.
type results struct {
	np      int
	cases   []Case
	explain io.Writer // for the rows that explain; nil: rows have times
	table   *table    // nil: not printed
	json    *os.File  // nil: not written
	plot    *os.File  // nil: not drawn
	files   []*os.File
	created []string     // names of files that did not exist before
	status  *output.Sink // has a line with the current case; nil: not shown
	start   time.Time

	partial []byte // of a line that is not complete
	rows    []*Row

	digests, algorithms []string // of the plans that ran, or would run, and their makers
}

// open creates the files of the command line: a wrong name is noticed before the ranks start. The output of an earlier
// command remains until there is something to write, and a file that was created and got nothing is removed again.
func (r *results) open(o *Options) error {
	for _, f := range []struct {
		flag, name string
		dst        **os.File
	}{{"--json", o.JSON, &r.json}, {"--plot", o.Plot, &r.plot}} {
		switch f.name {
		case "":
			continue
		case "-": // a name that --plot cannot have
			*f.dst = os.Stdout
			continue
		}
		_, missing := os.Lstat(f.name)
		file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return errors.Join(wrapError("bench: "+f.flag, err), r.close())
		}
		r.files, *f.dst = append(r.files, file), file
		if missing != nil {
			r.created = append(r.created, f.name)
		}
	}
	return nil
}

// Write implements io.Writer.
func (r *results) Write(p []byte) (int, error) {
	r.partial = append(r.partial, p...)
	for {
		line, after, whole := bytes.Cut(r.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if err := r.addRecord(line); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		r.partial = after
	}
}

// addRecord reads one line of rank 0.
func (r *results) addRecord(line []byte) error {
	rec, err := parseRecord(line)
	if err != nil {
		return err
	}
	n := len(r.rows)
	if rec.Ranks != nil && n == 0 {
		r.status.Status("")
		if r.table != nil {
			err = wrapError("print the table", r.table.Begin(rec.Ranks))
		}
		r.showStatus()
		return err
	}
	row := rec.Row
	if n == len(r.cases) || row == nil || (row.Explained != nil) != (r.explain != nil) || !row.matches(&r.cases[n], r.np) {
		return fmt.Errorf("rank 0 sent %s, which is not row %d of %d", line, n+1, len(r.cases))
	}
	r.status.Status("")
	r.digests, r.algorithms = append(r.digests, row.Digest), append(r.algorithms, row.Algorithm)
	r.rows = append(r.rows, row)
	if n == 0 {
		for _, f := range r.files {
			_ = f.Truncate(0) // a device or a pipe has no length
		}
	}
	if r.explain != nil {
		if _, err := io.WriteString(r.explain, explanation(row)); err != nil {
			return wrapError("print the comparison", err)
		}
	}
	if r.table != nil {
		if err := r.table.Add(row); err != nil {
			return wrapError("print the table", err)
		}
	}
	if r.json != nil {
		if err := json.NewEncoder(r.json).Encode(row); err != nil {
			return wrapError("--json", err)
		}
	}
	r.showStatus()
	return nil
}

// wrapError adds the failed operation to an error.
func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// showStatus shows the next case.
func (r *results) showStatus() {
	if n := len(r.rows); n < len(r.cases) {
		c := r.cases[n]
		r.status.Status(fmt.Sprintf("treerun: bench: row %d of %d, %s of %d bytes, after %.0f s", n+1, len(r.cases), c.Name,
			c.Bytes, time.Since(r.start).Seconds()))
	}
}

// close draws the picture and closes the files.
func (r *results) close() (err error) {
	if r.plot != nil && len(r.rows) > 0 {
		var svg []byte
		if svg, err = picture(r.rows); err == nil {
			_, err = r.plot.Write(svg)
		}
		err = wrapError("bench: --plot", err)
	}
	for _, f := range r.files {
		err = errors.Join(err, wrapError("bench", f.Close()))
	}
	for _, name := range r.created {
		if len(r.rows) == 0 {
			err = errors.Join(err, wrapError("bench", os.Remove(name)))
		}
	}
	return err
}

// countWrong returns the number of wrong elements, and of the rows that have some.
func countWrong(list []*Row) (elements int64, rows int) {
	for _, row := range list {
		if row.Wrong != nil && *row.Wrong > 0 {
			elements += *row.Wrong
			rows++
		}
	}
	return elements, rows
}
