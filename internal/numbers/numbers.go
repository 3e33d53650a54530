// Package numbers holds calculations with numbers that several packages need: medians, sums, orders, rounding to
// significant digits, counts, sizes and lists in words, lines of words, and names with numbers in them. It imports no
// other package of treerun.
package numbers

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Median returns the median of values, which it does not change: the mean of the middle two if their number is even, 0
// for none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[n/2] + s[(n-1)/2]) / 2
}

// Sum adds up values, the first ones first.
func Sum(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

// Below returns the numbers below n, rising.
func Below(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Order returns the numbers below n in the order of compare, equal ones rising.
func Order(n int, compare func(i, j int) int) []int {
	order := Below(n)
	slices.SortStableFunc(order, compare)
	return order
}

// Digits rounds a measured figure to three significant digits: more are not known.
func Digits(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// Count returns a number of things: "1 rank", "3 ranks", "2 processes".
func Count(n int, what string) string { return fmt.Sprintf("%d %s", n, Plural(n, what)) }

// Plural returns the word for n things, without the number.
func Plural(n int, what string) string {
	switch {
	case n == 1:
		return what
	case strings.HasSuffix(what, "ss"):
		return what + "es"
	}
	return what + "s"
}

// Are returns the verb of n things: "is" or "are".
func Are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Join returns the strings of values, with sep between them.
func Join[T fmt.Stringer](values []T, sep string) string {
	var all []string
	for _, v := range values {
		all = append(all, v.String())
	}
	return strings.Join(all, sep)
}

// GroupSizes returns, for each label, the number of labels equal to it, including itself.
func GroupSizes(labels []int) []int {
	count := make(map[int]int)
	for _, l := range labels {
		count[l]++
	}
	sizes := make([]int, len(labels))
	for i, l := range labels {
		sizes[i] = count[l]
	}
	return sizes
}

// Bytes returns a size in the largest unit, of powers of 1024, that needs no fraction: "64 KiB".
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n != 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}

// MaxBytes is the largest size that ParseBytes accepts, 16 TiB: sums of a few stay exact in a float64.
const MaxBytes = 1 << 44

// ParseBytes parses a size of at most MaxBytes; K, M, G and T behind it are powers of 1024, as are KB and KiB.
func ParseBytes(text string) (n int64, ok bool) {
	number, unit := text, 1.0
	short := strings.ToUpper(text)
	if s, ok := strings.CutSuffix(short, "B"); ok {
		short = strings.TrimSuffix(s, "I")
	}
	if last := len(short) - 1; last >= 0 {
		if i := strings.IndexByte("KMGT", short[last]); i >= 0 {
			number, unit = short[:last], math.Ldexp(1, 10*(i+1))
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	v *= unit
	return int64(v), err == nil && v >= 0 && v <= MaxBytes && v == math.Trunc(v)
}

// Wrapped splits text between words into lines of at most width characters, except for words that are longer.
func Wrapped(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
