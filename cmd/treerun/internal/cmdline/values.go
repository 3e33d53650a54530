// Package cmdline holds what the subcommands of treerun have in common on their
// command lines: the values of flags (ranks, sizes, times), the spelling -np, the exit
// codes, and the error that carries one. It starts nothing. Only the packages below cmd/treerun import it.
package cmdline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// Ranks is the value of -np; 0 is the default.
type Ranks int

// Set reads a number of ranks.
func (r *Ranks) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > job.MaxRanks {
		return fmt.Errorf("want a whole number from 1 to %d", job.MaxRanks)
	}
	*r = Ranks(n)
	return nil
}

// Type names the kind of value in the help.
func (r *Ranks) Type() string { return "N" }

// String writes the number as Set reads it, "" for the default.
func (r *Ranks) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.Itoa(int(*r))
}

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

// String writes a size as Set reads it, in the largest unit that needs no
// fraction.
func (s *Size) String() string {
	return strings.NewReplacer(" B", "", " ", "", "iB", "").Replace(numbers.Bytes(int64(*s)))
}

// Value is a flag that sets something from text.
type Value struct {
	Kind  string                  // of value, in the help
	From  func(text string) error // sets it
	Write func() string           // as From reads it, "" for the default
}

// Set sets the flag.
func (v *Value) Set(text string) error { return v.From(text) }

// Type names the kind of value in the help.
func (v *Value) Type() string { return v.Kind }

// String writes the value as Set reads it.
func (v *Value) String() string { return v.Write() }

// Whole returns the value of a flag that takes a whole number of this range.
func Whole(to *int, lo, hi int) *Value {
	return &Value{"N", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("want a whole number from %d to %d", lo, hi)
		}
		*to = n
		return nil
	}, func() string { return strconv.Itoa(*to) }}
}

// Time returns the value of a flag that takes a time of at least so much: a number of
// seconds, or what time.ParseDuration takes.
func Time(to *time.Duration, least time.Duration) *Value {
	return &Value{"TIME", func(text string) error {
		d, err := time.ParseDuration(text)
		if n, numErr := strconv.ParseFloat(text, 64); numErr == nil {
			d, err = time.Duration(n*float64(time.Second)), nil
			if math.IsNaN(n) || n > 1e9 {
				err = errors.New("out of range")
			}
		}
		if err != nil || d < 0 {
			return errors.New("want a time, as 30, 2.5s, 15m or 2h")
		}
		if d < least {
			return fmt.Errorf("want at least %v", least)
		}
		*to = d
		return nil
	}, func() string {
		if *to == 0 {
			return ""
		}
		return to.String()
	}}
}

// Text returns the value of a flag that takes what parse takes, and "", which is none.
func Text[T any](to *string, parse func(text string) (T, error)) *Value {
	return &Value{"TEXT", func(text string) error {
		if text != "" {
			if _, err := parse(text); err != nil {
				return err
			}
		}
		*to = text
		return nil
	}, func() string { return *to }}
}

// Choice returns the value of a flag that takes one of these words, and sets to to its
// index. The first stands for 0, the default; it cannot be given where it is "". kind names
// the value in the help.
func Choice[T ~int](to *T, kind string, words ...string) *Value {
	return &Value{kind, func(text string) error {
		i, err := oneOf(words, text)
		if err == nil {
			*to = T(i)
		}
		return err
	}, func() string {
		if *to == 0 {
			return ""
		}
		return words[*to]
	}}
}

// Word returns the value of a flag that takes one of these words, and sets to to it.
func Word(to *string, words ...string) *Value {
	return &Value{"WORD", func(text string) error {
		_, err := oneOf(words, text)
		if err == nil {
			*to = text
		}
		return err
	}, func() string { return *to }}
}

func oneOf(words []string, text string) (int, error) {
	i := slices.Index(words, text)
	if i < 0 || text == "" {
		return 0, errors.New("want " + strings.TrimPrefix(Or(words), ", "))
	}
	return i, nil
}

// Or joins words as a sentence does.
func Or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Words cuts a command into words as a shell does: between spaces, but not within
// quotes; a backslash takes the next character as it is, not so within single
// quotes. Nothing is expanded.
func Words(text string) ([]string, error) {
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
