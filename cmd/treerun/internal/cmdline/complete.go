package cmdline

import (
	"errors"
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
	if l, ok := errors.AsType[*listed](err); ok {
		return l.flags
	}
	return pflag.NewFlagSet("", pflag.ContinueOnError)
}

// Offer names words that a flag takes, beside others.
func Offer(f *pflag.FlagSet, flag string, words ...string) {
	_ = f.SetAnnotation(flag, "words", words) // only a flag that is not there is an error
}

// Complete returns the words that may stand after some arguments of a command with these flags, in place of last, with
// which they may begin: values of a flag, or flags. Where others may stand there it returns none.
func Complete(f *pflag.FlagSet, before []string, last string) (words []string) {
	before = rewrite(before, f, "")
	for i := 0; i < len(before); i++ {
		switch arg := before[i]; {
		case !strings.HasPrefix(arg, "-"):
			return nil // what follows is a program's own
		case takesNext(arg, f) && i == len(before)-1:
			return values(f, arg, "", last)
		case takesNext(arg, f):
			i++
		}
	}
	if flag, value, ok := strings.Cut(last, "="); ok {
		return values(f, flag, flag+"=", value)
	}
	if strings.HasPrefix(last, "-") {
		f.VisitAll(func(one *pflag.Flag) { words = append(words, "--"+one.Name) })
	}
	return words
}

// values returns the words that a flag takes after what stands there: some words with commas.
func values(f *pflag.FlagSet, flag, before, begun string) (list []string) {
	name := strings.TrimLeft(flag, "-")
	one := f.Lookup(name)
	if len(name) == 1 {
		one = f.ShorthandLookup(name)
	}
	if one == nil {
		return nil
	}
	words := one.Annotations["words"]
	if v, ok := one.Value.(*value[string]); ok && v.words != nil {
		words = v.words
	}
	for _, w := range words {
		if w != "" {
			list = append(list, before+begun[:strings.LastIndex(begun, ",")+1]+w)
		}
	}
	return list
}
