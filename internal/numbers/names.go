package numbers

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxName is the largest length of the name of a host, in bytes, as in the domain name system.
const MaxName = 253

// SplitNames splits a list of names, as Slurm writes it, at the commas outside brackets.
func SplitNames(text string) []string {
	var words []string
	depth, begin := 0, 0
	for i, c := range []byte(text) {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth <= 0:
			words = append(words, text[begin:i])
			begin = i + 1
		}
	}
	return append(words, text[begin:])
}

var errBrackets = errors.New("brackets that do not match")

// ExpandNames returns the names, at most limit, that Slurm's notation stands for: in each pair of brackets there are
// numbers and ranges between commas, as in n[01-04,9]. A number is as wide as it is written. Several pairs make every
// combination, the last one fastest.
func ExpandNames(text string, limit int) ([]string, error) {
	head, tail, more := strings.Cut(text, "[")
	inner, after, closed := strings.Cut(tail, "]")
	switch {
	case strings.Contains(head, "]") || more && (!closed || strings.Contains(inner, "[")):
		return nil, errBrackets
	case !more:
		return []string{head}, nil
	}
	parts, err := expandBrackets(inner, limit)
	if err != nil {
		return nil, err
	}
	rest, err := ExpandNames(after, limit)
	switch {
	case err != nil:
		return nil, err
	case len(parts)*len(rest) > limit:
		return nil, fmt.Errorf("more than %d hosts", limit)
	case len(head)+len(parts[0])+len(rest[0]) > MaxName:
		return nil, fmt.Errorf("a name of more than %d bytes", MaxName)
	}
	var names []string
	for _, p := range parts {
		for _, r := range rest {
			names = append(names, head+p+r)
		}
	}
	return names, nil
}

// ParseList returns the numbers, all below limit, of a list as in 0,4-7, nil where text is no such list.
func ParseList(text string, limit int) (list []int) {
	names, _ := ExpandNames("["+text+"]", limit)
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil || n >= limit {
			return nil
		}
		list = append(list, n)
	}
	return list
}

// expandBrackets returns the numbers that one pair of brackets stands for.
func expandBrackets(inner string, limit int) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(inner, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, errA := parseDigits(lo)
		b, errB := parseDigits(hi)
		if err := errors.Join(errA, errB); err != nil {
			return nil, fmt.Errorf("%.40q in brackets, want numbers and ranges as in [01-04,9]", part)
		}
		if b < a {
			return nil, fmt.Errorf("the range %.60s goes down", part)
		}
		if len(all)+b-a >= limit {
			return nil, fmt.Errorf("more than %d hosts", limit)
		}
		for n := a; n <= b; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(lo), n))
		}
	}
	return all, nil
}

// parseDigits reads digits only, no more than a name has room for.
func parseDigits(text string) (int, error) {
	if len(text) > MaxName {
		return 0, strconv.ErrRange
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}
