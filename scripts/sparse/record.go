package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/scripts/internal/results"
)

// entry is one line of the record: a fact about the machine, or a row.
type entry struct {
	Fact  string `json:"fact,omitempty"`
	Value string `json:"value,omitempty"`

	Case   string  `json:"case,omitempty"`
	TimeUs float64 `json:"time_us,omitempty"`
	Away   float64 `json:"away,omitempty"` // cores that others used during the job

	InPlace  bool    `json:"in_place,omitempty"`
	Density  float64 `json:"density,omitempty"`
	Form     string  `json:"form,omitempty"`    // in which it ran
	Union    float64 `json:"union,omitempty"`   // density after union
	Sent     int64   `json:"sent,omitempty"`    // bytes, of the rank that sent most
	FloorUs  float64 `json:"floor,omitempty"`   // the least time: see page.go
	Predict  float64 `json:"predict,omitempty"` // microseconds
	FindUs   float64 `json:"find,omitempty"`
	Verified bool    `json:"verified,omitempty"` // every element was compared
	Runs     int     `json:"runs,omitempty"`     // repetitions; the figures are medians
}

// record is all that was measured.
type record []entry

func parse(text []byte) (record, error) {
	var r record
	err := results.Lines(text, func(line []byte) error {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		r = append(r, e)
		return e.check()
	})
	return r, err
}

func (e *entry) check() error {
	switch {
	case (e.Fact == "") == (e.Case == ""):
		return errors.New("want a fact or a case")
	case e.Case != "" && !(e.TimeUs > 0 && e.TimeUs < 1e12):
		return fmt.Errorf("time %v", e.TimeUs)
	case !(e.Density >= 0 && e.Density <= 1), !(e.Union >= 0 && e.Union <= 1):
		return fmt.Errorf("densities %v and %v", e.Density, e.Union)
	case !(e.FloorUs >= 0 && e.Away >= 0 && e.Predict >= 0) || math.IsInf(e.FloorUs+e.Away+e.Predict, 0):
		return errors.New("a figure is not a number from 0 on")
	}
	return nil
}

func (r record) text() ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for i := range r {
		if err := out.Encode(&r[i]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// same reports whether two rows are repetitions of each other.
func (e *entry) same(o *entry) bool {
	return e.Case == o.Case && e.Density == o.Density && e.InPlace == o.InPlace
}

// with returns r with the medians of rows, which replace what r has of them.
func (r record) with(rows record) record {
	for i := range rows {
		e := &rows[i]
		if slices.ContainsFunc(rows[:i], func(o entry) bool { return o.same(e) }) {
			continue
		}
		r = slices.DeleteFunc(r, func(o entry) bool { return o.same(e) })
		r = append(r, medians(slices.DeleteFunc(slices.Clone(rows), func(o entry) bool { return !o.same(e) })))
	}
	return r
}

// medians returns what repetitions of a row are together.
func medians(rows record) entry {
	e := rows[0]
	of := func(figure func(*entry) float64) float64 {
		var list []float64
		for i := range rows {
			list = append(list, figure(&rows[i]))
		}
		return results.Median(list)
	}
	e.TimeUs = of(func(e *entry) float64 { return e.TimeUs })
	e.FloorUs = of(func(e *entry) float64 { return e.FloorUs })
	e.FindUs = of(func(e *entry) float64 { return e.FindUs })
	e.Predict = of(func(e *entry) float64 { return e.Predict })
	e.Away = of(func(e *entry) float64 { return e.Away })
	e.Runs = len(rows)
	forms := make(map[string]int)
	for i := range rows {
		o := &rows[i]
		if forms[o.Form]++; forms[o.Form] > forms[e.Form] {
			e.Form = o.Form
		}
		e.Verified = e.Verified || o.Verified
	}
	return e
}

// find returns the row of a case with a density, nil if there is none.
func (r record) find(name string, density float64, inPlace bool) *entry {
	for i := range r {
		if e := &r[i]; e.Case == name && e.Density == density && e.InPlace == inPlace {
			return e
		}
	}
	return nil
}
