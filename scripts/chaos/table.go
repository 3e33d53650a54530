package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// table has a row for each policy and number of ranks.
type table struct {
	rows  map[string]*row
	wrong int
}

// row has the trials of one kind.
type row struct {
	jobs, faults, wrong int
	errors, sums        []time.Duration // from the latest fault to the last error, and to the last first sum
}

func newTable() *table { return &table{rows: map[string]*row{}} }

// add counts a trial. Its times count if a running rank has had the only fault.
func (t *table) add(r *trial) {
	name := fmt.Sprintf("| %s | %d |", r.policy, r.size)
	k := t.rows[name]
	if k == nil {
		k = new(row)
		t.rows[name] = k
	}
	k.jobs++
	if r.wrong != "" {
		k.wrong++
		t.wrong++
	}
	for _, f := range r.faults {
		if f.sent > 0 {
			k.faults++
		}
	}
	if f := r.faults[0]; len(r.faults) == 1 && f.sent > 0 && !f.closed && f.kind != "stop" && r.wrong == "" {
		if len(r.errors) > 0 && slices.Min(r.errors) > f.sent {
			k.errors = append(k.errors, time.Duration(slices.Max(r.errors)-f.sent))
		}
		if len(r.sums) > 0 && slices.Min(r.sums) > f.sent {
			k.sums = append(k.sums, time.Duration(slices.Max(r.sums)-f.sent))
		}
	}
}

// print writes the table as Markdown.
func (t *table) print(w io.Writer) {
	fmt.Fprintln(w, "| policy | ranks | jobs | faults | wrong | error p50, p99, ms | next sum p50, p99, max, ms |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	var names []string
	for name := range t.rows {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		k := t.rows[name]
		fmt.Fprintf(w, "%s %d | %d | %d | %s, %s | %s, %s, %s |\n", name, k.jobs, k.faults, k.wrong, at(k.errors, 50),
			at(k.errors, 99), at(k.sums, 50), at(k.sums, 99), at(k.sums, 100))
	}
}

// at returns a percentile in milliseconds, - of nothing.
func at(all []time.Duration, percent int) string {
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f", float64(all[(len(all)-1)*percent/100].Microseconds())/1000)
}
