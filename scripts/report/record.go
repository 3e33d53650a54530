//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// key identifies the measurement of a row.
type key struct {
	Part  string `json:"part,omitempty"` // of the measurement, the network, or the set of hosts
	Who   string `json:"who,omitempty"`  // implementation with its setting, algorithm, or form
	Op    string `json:"collective,omitempty"`
	NP    int    `json:"np,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
}

// row is one line of a record: a fact about the machine or the run, or a row as treerun bench --json prints it, with
// the varied parameters.
type row struct {
	Fact string `json:"fact,omitempty"`
	Text string `json:"value,omitempty"`

	key
	Rep         int      `json:"rep,omitempty"` // repetition, from 1 on
	InPlace     bool     `json:"in_place,omitempty"`
	TimeUs      float64  `json:"time_us,omitempty"`
	Figure      float64  `json:"figure,omitempty"` // a value other than microseconds, in the unit of the part
	Away        float64  `json:"away,omitempty"`   // number of cores that others used in the meantime
	Plan        string   `json:"plan,omitempty"`
	Share       *float64 `json:"limit_share,omitempty"` // of the limit that treerun bench measured
	FloorUs     float64  `json:"floor_us,omitempty"`
	PredictedUs *float64 `json:"predicted_us,omitempty"`
	Wrong       *int64   `json:"wrong,omitempty"` // number of elements; nil: not compared
	Sparse      *sparse  `json:"sparse,omitempty"`
	Loss        *loss    `json:"loss,omitempty"`
}

// loss holds what a job of scripts/chaos has had: faults, the time to the last error, and what it did wrong.
type loss struct {
	Faults  int     `json:"faults"`
	ErrorUs float64 `json:"error_us"`
	Verdict string  `json:"verdict"`
	Load    float64 `json:"load"`
}

// sparse holds the attributes of a sparse AllReduce in the output of treerun bench.
type sparse struct {
	Density float64 `json:"density"`
	Overlap string  `json:"overlap"`
	Form    string  `json:"form"`
	Union   float64 `json:"union_density"`
	Sent    int64   `json:"sent_bytes"`
	FindUs  float64 `json:"find_us"`
}

// rows are those of a record, in the order of their measurement.
type rows []*row

// record holds all results of a measurement.
type record struct {
	Facts []*row // of the machine and the run
	rows
}

// add adds a row, or a fact, to the record.
func (r *record) add(v *row) {
	if v.Fact != "" {
		r.Facts = append(r.Facts, v)
		return
	}
	r.rows = append(r.rows, v)
}

// fact adds a line about the machine or the run.
func (r *record) fact(name, format string, args ...any) {
	r.add(&row{Fact: name, Text: fmt.Sprintf(format, args...)})
}

// write writes the record to a file.
func (r *record) write(file string) error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, v := range slices.Concat(r.Facts, r.rows) {
		if err := out.Encode(v); err != nil {
			return err
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// parseRows parses the rows in the output of a benchmark, treerun's or one of the peers' kit, and ignores all other
// lines. Wrong elements are an error, and so is output without rows.
func parseRows(out []byte) (rows, error) {
	var all rows
	for line := range bytes.Lines(out) {
		var v struct {
			row
			Kit string `json:"op"` // the kit's word for the collective
		}
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &v) != nil {
			continue
		}
		if v.Op == "" {
			v.Op = v.Kit
		}
		if v.TimeUs <= 0 || v.Op == "" {
			continue
		}
		if v.Wrong != nil && *v.Wrong > 0 {
			return nil, fmt.Errorf("%d wrong elements in %s of %d bytes", *v.Wrong, v.Op, v.Bytes)
		}
		all = append(all, &v.row)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no rows in %.200q", out)
	}
	return all, nil
}
