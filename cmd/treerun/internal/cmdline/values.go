// Package cmdline holds the parts of command lines that the subcommands of treerun have in
// common: the values of flags (ranks, sizes, times), the spelling -np, the exit
// codes, and the error that carries one. It starts nothing. Only the packages below cmd/treerun import it.
package cmdline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// FlagsVariable is the variable with flags of a job, before those of the command line.
const FlagsVariable = "TREERUN_FLAGS"

// Size is a number of bytes: K, M, G and T are powers of 1024.
type Size int64

// Set reads a size.
func (s *Size) Set(text string) error {
	n, ok := numbers.ParseBytes(text)
	if !ok || n == 0 {
		return errors.New("want a size from 1 byte to 16T, as 8, 64K, 256M or 1G")
	}
	*s = Size(n)
	return nil
}

// Type names the kind of value in the help.
func (s *Size) Type() string { return "SIZE" }

// String formats a size as Set reads it, in the largest unit that needs no
// fraction.
func (s *Size) String() string {
	return strings.NewReplacer(" B", "", " ", "", "iB", "").Replace(numbers.Bytes(int64(*s)))
}

// SizeFrom returns the value of a flag that takes a number of bytes of at least low.
func SizeFrom(dst *Size, low Size) pflag.Value {
	return &value[Size]{dst: dst, kind: low.Type(), parse: func(text string) (s Size, err error) {
		if err = s.Set(text); err != nil || s < low {
			err = fmt.Errorf("want a size from %v to 16T, as 64M or 4G (hint: without a unit it is a number of bytes)", &low)
		}
		return s, err
	}}
}

// value is the value of a flag; Set stores the result of parse in to.
type value[T comparable] struct {
	dst   *T
	kind  string // in the help
	parse func(text string) (T, error)
	words []string // that it takes; nil: any
}

// Set sets the flag.
func (v *value[T]) Set(text string) error {
	x, err := v.parse(text)
	if err == nil {
		*v.dst = x
	}
	return err
}

// Type names the kind of value in the help.
func (v *value[T]) Type() string { return v.kind }

// String formats the value as Set reads it, "" for none.
func (v *value[T]) String() string {
	if *v.dst == *new(T) {
		return ""
	}
	return fmt.Sprint(*v.dst)
}

// IntRange returns the value of a flag that takes a whole number of this range.
func IntRange(dst *int, lo, hi int) pflag.Value {
	return &value[int]{dst: dst, kind: "N", parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < lo || n > hi {
			return 0, fmt.Errorf("want a whole number from %d to %d", lo, hi)
		}
		return n, nil
	}}
}

// Ranks returns the value of a flag that takes a number of ranks, as -np; 0 is the default.
func Ranks(dst *int) pflag.Value { return IntRange(dst, 1, job.MaxRanks) }

// RankSet returns the value of a flag that takes numbers of ranks, as in 0,4-7, and stores them in ascending order.
func RankSet(dst *[]int) pflag.Value {
	return Setter("RANKS", func(text string) error {
		set := numbers.ParseList(text, job.MaxRanks)
		if set == nil {
			return fmt.Errorf("want numbers of ranks below %d, as 0,4-7", job.MaxRanks)
		}
		slices.Sort(set)
		*dst = slices.Compact(set)
		return nil
	})
}

// Time returns the value of a flag that takes a time (job.ParseTime) of at least low.
func Time(dst *time.Duration, low time.Duration) pflag.Value {
	return &value[time.Duration]{dst: dst, kind: "TIME", parse: func(text string) (time.Duration, error) {
		d, err := job.ParseTime(text)
		if err == nil && d < low {
			err = fmt.Errorf("want at least %v", low)
		}
		return d, err
	}}
}

// Setter returns the value of a flag that passes its text to set.
func Setter(kind string, set func(text string) error) pflag.Value {
	return setter(new(string), kind, set)
}

func setter(dst *string, kind string, set func(text string) error) *value[string] {
	return &value[string]{dst: dst, kind: kind, parse: func(text string) (string, error) { return text, set(text) }}
}

// Text returns the value of a flag that takes the texts that parse accepts, and "" for none.
func Text[T any](dst *string, parse func(text string) (T, error)) pflag.Value {
	return setter(dst, "TEXT", func(text string) (err error) {
		if text != "" {
			_, err = parse(text)
		}
		return err
	})
}

// Choice returns the value of a flag that takes one of words, and stores its index in to.
// The first stands for 0, the default; it cannot be given where it is "". kind names
// the value in the help.
func Choice[T ~int](dst *T, kind string, words ...string) pflag.Value {
	v := setter(new(string), kind, func(text string) error {
		if err := oneOf(words, text); err != nil {
			return err
		}
		*dst = T(slices.Index(words, text))
		return nil
	})
	v.words = words
	return v
}

// LowerWord returns the value of a flag that takes one of words, in any case, and stores it in to in lower case.
func LowerWord(dst *string, words ...string) pflag.Value {
	v := setter(dst, "WORD", nil)
	v.words, v.parse = words, func(text string) (string, error) {
		word := strings.ToLower(text)
		return word, oneOf(words, word)
	}
	return v
}

func oneOf(words []string, text string) error {
	if text == "" || !slices.Contains(words, text) {
		return errors.New("want " + strings.TrimPrefix(JoinOr(words), ", "))
	}
	return nil
}

// JoinOr joins words as in a sentence, with "or" before the last.
func JoinOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// SplitWords splits a command into words as a shell does: at spaces that are not within
// quotes; a backslash quotes the next character, except within single
// quotes. Nothing is expanded.
func SplitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
