package cmdline

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// askFlags is an argument for which Parse does nothing but hand its flags out, as an error: nobody can type it.
const askFlags = "\x00"

type listed struct{ flags *pflag.FlagSet }

// Error is for nobody.
func (*listed) Error() string { return "these are the flags" }

// FlagsOf returns the flags with which a command calls Parse.
func FlagsOf(command func(args []string) (int, error)) *pflag.FlagSet {
	_, err := command([]string{askFlags})
	var l *listed
	if errors.As(err, &l) {
		return l.flags
	}
	return pflag.NewFlagSet("", pflag.ContinueOnError)
}

// Offer names words that a flag takes, beside others.
func Offer(f *pflag.FlagSet, flag string, words ...string) {
	_ = f.SetAnnotation(flag, "words", words) // only a flag that is not there is an error
}

// Complete returns the words that may stand for last after some arguments of a command with these flags: values of
// the flag before it, or flags. Where others may stand there it returns none.
func Complete(f *pflag.FlagSet, before []string, last string) []string {
	before = rewrite(before, f, "")
	for i := 0; i < len(before); i++ {
		switch arg := before[i]; {
		case !strings.HasPrefix(arg, "-"):
			return nil // what follows is a program's own
		case takesNext(arg, f) && i == len(before)-1:
			return values(f, strings.TrimLeft(arg, "-"), last)
		case takesNext(arg, f):
			i++
		}
	}
	if name, value, ok := strings.Cut(strings.TrimLeft(last, "-"), "="); ok {
		words := values(f, name, value)
		for i := range words {
			words[i] = strings.TrimSuffix(last, value) + words[i]
		}
		return words
	}
	if !strings.HasPrefix(last, "-") {
		return nil
	}
	var words []string
	f.VisitAll(func(one *pflag.Flag) { words = append(words, "--"+one.Name) })
	return beginning(words, last)
}

// values returns the words that a flag takes, and, for one that takes several, after those that stand there.
func values(f *pflag.FlagSet, flag, begun string) []string {
	one := f.Lookup(flag)
	if len(flag) == 1 {
		one = f.ShorthandLookup(flag)
	}
	if one == nil {
		return nil
	}
	words := slices.Clone(one.Annotations["words"])
	if v, ok := one.Value.(*value[string]); ok {
		words = append(words, v.words...)
	}
	others := begun[:strings.LastIndex(begun, ",")+1]
	for i := range words {
		words[i] = others + words[i]
	}
	return beginning(words, begun)
}

// beginning returns those of some words that begin so.
func beginning(words []string, so string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return w == "" || !strings.HasPrefix(w, so) })
}
