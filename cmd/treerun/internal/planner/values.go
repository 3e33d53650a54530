package planner

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// value is a flag that takes a number of one kind and says in plain words which
// it wants.
type value[T int | uint64 | float64] struct {
	to   *T
	kind string // for the help
	want string
	read func(text string) (T, error)
	ok   func(T) bool
}

// Set reads the number.
func (v *value[T]) Set(text string) error {
	x, err := v.read(text)
	if err != nil || !v.ok(x) {
		return errors.New("want " + v.want)
	}
	*v.to = x
	return nil
}

// Type names the kind of value in the help.
func (v *value[T]) Type() string { return v.kind }

// String writes the number as Set reads it.
func (v *value[T]) String() string { return fmt.Sprint(*v.to) }

// whole is a flag for a whole number of lo to hi; math.MaxInt is no limit.
func whole(to *int, lo, hi int) *value[int] {
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if hi == math.MaxInt {
		want = fmt.Sprintf("a whole number, %d or more", lo)
	}
	return &value[int]{to, "N", want, strconv.Atoi, func(x int) bool { return x >= lo && x <= hi }}
}

// real is a flag for a number of lo to hi. NaN is none, and an infinite one
// never is in the range.
func real(to *float64, lo, hi float64) *value[float64] {
	want := fmt.Sprintf("a number from %v to %v", lo, hi)
	return &value[float64]{to, "X", want, readFloat, func(x float64) bool { return x >= lo && x <= hi }}
}

// below is a flag for a share, from 0 to below 1.
func below(to *float64) *value[float64] {
	return &value[float64]{to, "X", "a share from 0 to below 1", readFloat, func(x float64) bool { return x >= 0 && x < 1 }}
}

func readFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// seed is a flag for what starts the random choices.
func seed(to *uint64) *value[uint64] {
	read := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	return &value[uint64]{to, "SEED", fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)), read, func(uint64) bool { return true }}
}

// counts is a flag for whole numbers with commas between them.
type counts struct {
	to   *[]int
	most int
}

// Set reads the numbers.
func (c *counts) Set(text string) error {
	var list []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > c.most {
			return fmt.Errorf("want numbers from 1 to %d, as 1,50", c.most)
		}
		list = append(list, n)
	}
	*c.to = list
	return nil
}

// Type names the kind of value in the help.
func (c *counts) Type() string { return "N,..." }

// String writes the numbers as Set reads them.
func (c *counts) String() string {
	var parts []string
	for _, n := range *c.to {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ",")
}

// choice is a flag for one of some words.
type choice struct {
	to    *string
	words []string
}

// Set takes one of the words.
func (c *choice) Set(text string) error {
	for _, w := range c.words {
		if text == w {
			*c.to = text
			return nil
		}
	}
	return errors.New("want " + or(c.words))
}

// or joins words as a sentence does.
func or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Type names the kind of value in the help.
func (c *choice) Type() string { return "WORD" }

// String is the word.
func (c *choice) String() string { return *c.to }
