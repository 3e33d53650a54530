package planner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/planner"
)

// size is a number of bytes on the command line.
type size = cmdline.Size

// optionValue is a flag that sets a field of options.
type optionValue struct {
	options *planner.Options
	planner.Flag
}

// Set sets the field.
func (v *optionValue) Set(text string) error { return v.options.Set(v.Name, text) }

// Type names the kind of value in the help.
func (v *optionValue) Type() string {
	if v.Bool {
		return "bool"
	}
	return "VALUE"
}

// String is the value as Set reads it, empty where it is zero.
func (v *optionValue) String() string {
	if v.options == nil {
		return ""
	}
	return v.options.Map()[v.Name]
}

// defineOptions adds --algorithm and the options of algorithms, seed with a prefix.
func defineOptions(f *pflag.FlagSet, o *planner.Options, prefix string) {
	f.Var(&optionValue{o, planner.Flag{Name: "algorithm"}}, "algorithm",
		"`NAME`: "+broken(planner.Algorithms(), 60)+
			"\n(default: by predicted time); options may follow, as in packing,max-trees=4")
	for _, option := range planner.Flags() {
		name, help := option.Name, option.Help
		if name == "seed" {
			name = prefix + name
		}
		if len(option.Takers) > 0 && len(option.Takers) < 3 {
			help = strings.Join(option.Takers, ", ") + ": " + help
		}
		flag := f.VarPF(&optionValue{o, option}, name, "", help)
		if option.Bool {
			flag.NoOptDefVal = "true"
		}
	}
}

// broken joins words to lines that fit into the help.
func broken(words []string, most int) string {
	text, width := "", 0
	for i, w := range words {
		if i > 0 {
			text, width = text+", ", width+2
		}
		if width > most {
			text, width = strings.TrimSuffix(text, " ")+"\n", 0
		}
		text, width = text+w, width+len(w)
	}
	return text
}

// number is a flag that takes a number and says in plain words which it wants.
type number[T int | float64] struct {
	to     *T
	lo, hi T
	read   func(text string) (T, error)
	want   string
}

// Set reads the number. NaN is none, and an infinite one never is in the range.
func (v *number[T]) Set(text string) error {
	x, err := v.read(text)
	if err != nil || !(x >= v.lo && x <= v.hi) {
		return fmt.Errorf("want %s from %v to %v", v.want, v.lo, v.hi)
	}
	*v.to = x
	return nil
}

// Type names the kind of value in the help.
func (v *number[T]) Type() string { return "N" }

// String writes the number as Set reads it.
func (v *number[T]) String() string { return fmt.Sprint(*v.to) }

func whole(to *int, lo, hi int) *number[int] {
	return &number[int]{to, lo, hi, strconv.Atoi, "a whole number"}
}

func real(to *float64, lo, hi float64) *number[float64] {
	read := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return &number[float64]{to, lo, hi, read, "a number"}
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
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*c.to), " ", ","), "[]")
}

// choice is a flag for one of some words.
type choice struct {
	to    *string
	words []string
}

// Set takes one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return errors.New("want " + or(c.words))
	}
	*c.to = text
	return nil
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

// inWords writes a size for people, in the largest unit that needs no fraction.
func inWords(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n != 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}
