package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// key says what a row measured.
type key struct {
	Part  string `json:"part,omitempty"` // of what is measured, the network, or the set of hosts
	Who   string `json:"who,omitempty"`  // implementation with its setting, algorithm, or form
	Op    string `json:"collective,omitempty"`
	NP    int    `json:"np,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
}

// row is one line of a record: a fact about the machine or the run, or a row as
// treerun bench --json prints it, with what was varied.
type row struct {
	Fact string `json:"fact,omitempty"`
	Text string `json:"value,omitempty"`

	key
	Rep         int      `json:"rep,omitempty"` // repetition, from 1 on
	InPlace     bool     `json:"in_place,omitempty"`
	TimeUs      float64  `json:"time_us,omitempty"`
	Figure      float64  `json:"figure,omitempty"` // what is no time in microseconds, in the unit of the part
	Away        float64  `json:"away,omitempty"`   // cores that others used meanwhile
	Plan        string   `json:"plan,omitempty"`
	Share       *float64 `json:"limit_share,omitempty"` // of the limit that treerun bench measured
	FloorUs     float64  `json:"floor_us,omitempty"`
	PredictedUs *float64 `json:"predicted_us,omitempty"`
	Wrong       *int64   `json:"wrong,omitempty"` // elements; nil: nothing was compared
	Sparse      *sparse  `json:"sparse,omitempty"`
}

// sparse is what treerun bench says of a sparse AllReduce.
type sparse struct {
	Density float64 `json:"density"`
	Overlap string  `json:"overlap"`
	Form    string  `json:"form"`
	Union   float64 `json:"union_density"`
	Sent    int64   `json:"sent_bytes"`
	FindUs  float64 `json:"find_us"`
}

// rows are those of a record, in the order in which they were measured.
type rows []*row

// record is all that was measured.
type record struct {
	Facts []*row // of the machine and the run
	rows
}

// add puts a row, or a fact, into the record.
func (r *record) add(v *row) {
	if v.Fact != "" {
		r.Facts = append(r.Facts, v)
		return
	}
	r.rows = append(r.rows, v)
}

// fact notes a line about the machine or the run.
func (r *record) fact(name, format string, args ...any) {
	r.add(&row{Fact: name, Text: fmt.Sprintf(format, args...)})
}

// write puts the record into a file.
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

// printed reads the rows that a benchmark has printed, treerun's or one of the peers'
// kit, among whatever else. Wrong elements are an error, and so are no rows at all.
func printed(out []byte) (rows, error) {
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
