package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// dataset is a set of labelled images. The pixels stay bytes, four times
// smaller than float32: every rank holds the whole set.
type dataset struct {
	pixels  []byte // size() images of width pixels
	labels  []byte // one class per image
	width   int    // pixels per image
	maximum byte   // of a pixel, as the format has it
	classes int
}

func (d *dataset) size() int { return len(d.labels) }

// images copies the images that indices names into rows of x, with pixels from
// 0 to 1, and their labels into labels.
func (d *dataset) images(indices []int, x []float32, labels []byte) {
	scale := 1 / float32(d.maximum)
	for row, i := range indices {
		labels[row] = d.labels[i]
		to := x[row*d.width:][:d.width]
		for j, p := range d.pixels[i*d.width:][:d.width] {
			to[j] = float32(p) * scale
		}
	}
}

// digitsCSV is the handwritten digits of the UCI repository; data/README.md
// names source and licence.
//
//go:embed data/digits.csv.gz
var digitsCSV []byte

const digitsTestEvery = 5 // of the images, one is for the test

// digits returns the images that come with the example: 1,437 to train on and
// 360 to test with.
func digits() (train, test *dataset, err error) {
	z, err := gzip.NewReader(bytes.NewReader(digitsCSV))
	if err != nil {
		return nil, nil, fmt.Errorf("digits: %w", err)
	}
	all, err := parseDigits(z)
	if err != nil {
		return nil, nil, fmt.Errorf("digits: %w", err)
	}
	train, test = all.split(digitsTestEvery)
	return train, test, nil
}

// parseDigits reads lines of 64 pixels from 0 to 16 and a digit.
func parseDigits(r io.Reader) (*dataset, error) {
	d := &dataset{width: 64, maximum: 16, classes: 10}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(lines.Text(), ",")
		if len(fields) != d.width+1 {
			return nil, fmt.Errorf("line %d has %d fields, want %d", n, len(fields), d.width+1)
		}
		for i, f := range fields {
			limit := uint64(d.maximum)
			if i == d.width {
				limit = uint64(d.classes) - 1
			}
			v, err := strconv.ParseUint(f, 10, 8)
			if err != nil || v > limit {
				return nil, fmt.Errorf("line %d, field %d is %q, want 0 to %d", n, i+1, f, limit)
			}
			if i == d.width {
				d.labels = append(d.labels, byte(v))
			} else {
				d.pixels = append(d.pixels, byte(v))
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return d, nil
}

// split puts every nth image, from the first on, into test and the others into
// train.
func (d *dataset) split(n int) (train, test *dataset) {
	train = &dataset{width: d.width, maximum: d.maximum, classes: d.classes}
	test = &dataset{width: d.width, maximum: d.maximum, classes: d.classes}
	for i, label := range d.labels {
		to := train
		if i%n == 0 {
			to = test
		}
		to.labels = append(to.labels, label)
		to.pixels = append(to.pixels, d.pixels[i*d.width:][:d.width]...)
	}
	return train, test
}
