package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// NewFlags returns the flags of a command, with --help; its help has them in the order of their
// definition.
func NewFlags(name string, help *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.BoolVarP(help, "help", "h", false, "print this text")
	return f
}

// Usages lists flags for a help text, in lines that fit into a terminal.
func Usages(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(80) }

// Parse parses args with f, and also accepts long flags with one dash, as Go programs and MPI's launchers have
// them, and with underscores, as torchrun has them. An error describes the problem in words. others holds the
// replacements for flags of other programs, and for values of flags, in lines like "FLAG FLAG=VALUE: replacement".
func Parse(f *pflag.FlagSet, args []string, others string) error {
	return ParseExcept(f, args, others, func(_, _ string) bool { return false })
}

// ParseExcept is Parse, and ignores the flags for whose names and values ignored returns true.
func ParseExcept(f *pflag.FlagSet, args []string, others string, ignored func(name, value string) bool) error {
	if slices.Equal(args, []string{listFlags}) {
		return &flagList{f}
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	err := f.ParseAll(doubleDashes(args, f, others), func(flag *pflag.Flag, value string) error {
		if ignored(flag.Name, value) {
			return nil
		}
		return f.Set(flag.Name, value)
	})
	if err != nil {
		return plainError(f, err, others)
	}
	return checkEmpty(f)
}

// checkEmpty returns an error for a flag whose value is empty, as that of a variable that is not set.
func checkEmpty(f *pflag.FlagSet) (err error) {
	f.Visit(func(f *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(f)
		list, isList := f.Value.(pflag.SliceValue)
		text, isText := f.Value.(*value[string])
		empty := isText && *text.dst == "" || f.Value.Type() == "string" && f.Value.String() == ""
		switch {
		case !empty && !(isList && slices.Contains(list.GetSlice(), "")):
		case kind == "FILE" || kind == "FOLDER":
			err = fmt.Errorf("--%s names no %s: is a variable in it not set?", f.Name, strings.ToLower(kind))
		default:
			err = fmt.Errorf("--%s has no value: is a variable in it not set?", f.Name)
		}
	})
	return err
}

// doubleDashes gives long flags that have one dash a second one: -np 8, which users of MPI type, and -np8; also those
// of others, which may begin as a short flag does: -npernode. It stops at the first argument that is no flag: the
// arguments after it may be a program's own.
func doubleDashes(args []string, flags *pflag.FlagSet, others string) []string {
	out := append([]string(nil), args...)
	for i := 0; i < len(out); i++ {
		arg := out[i]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			break
		}
		if rest, ok := strings.CutPrefix(arg, "-np"); ok && strings.Trim(rest, "0123456789") == "" && rest != "" {
			arg = "-np=" + rest
		}
		name, _, _ := strings.Cut(arg[1:], "=")
		if len(name) > 1 && name[0] != '-' && (flags.Lookup(name) != nil || ourFlag(others, name) != "") {
			arg = "-" + arg
		}
		out[i] = arg
		if takesNext(arg, flags) {
			i++
		}
	}
	return out
}

// plainError returns an error of pflag's Parse in words: the flag, the value, and what the flag wants, or for an
// unknown flag the one that may have been meant.
func plainError(f *pflag.FlagSet, err error, others string) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return &UnknownFlag{unknownFlag(f, unknown, others)}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag, why := invalid.GetFlag(), fmt.Sprint(invalid.Unwrap())
	if number := new(strconv.NumError); errors.As(err, &number) {
		why = map[string]string{"int": "want a whole number",
			"intSlice": "want whole numbers with commas between them", "bool": "want true or false"}[flag.Value.Type()]
		why = cmp.Or(why, "want a number")
	}
	hint := ""
	if ours := ourValue(others, flag, invalid.GetValue()); ours != "" {
		hint = fmt.Sprintf(" (hint: here, %s)", ours)
	}
	return fmt.Errorf("--%s %q: %s%s", flag.Name, invalid.GetValue(), why, hint)
}

// UnknownFlag is the error of Parse for a flag that the command does not have.
type UnknownFlag struct{ text string }

// Error implements error.
func (e *UnknownFlag) Error() string { return e.text }

// unknownFlag describes a flag that f does not have.
func unknownFlag(f *pflag.FlagSet, e *pflag.NotExistError, others string) string {
	name, dashes := e.GetSpecifiedName(), "--"
	if group := e.GetSpecifiedShortnames(); group != "" {
		name, dashes = strings.TrimRight(group, "0123456789"), "-" // -c4 has a value that touches it
	}
	name, _, _ = strings.Cut(name, "=")
	if ours := ourFlag(others, name); ours != "" {
		return fmt.Sprintf("unknown flag: %s%s (hint: here, %s)", dashes, name, ours)
	}
	var names []string
	f.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf("unknown flag: %s%s (did you mean --%s?)", dashes, name, near)
	}
	return "unknown flag: " + dashes + name
}

// ourFlag returns the replacement for a flag of others, or for a flag's value; "" when others has none.
func ourFlag(others, name string) string {
	for line := range strings.Lines(others) {
		flags, text, _ := strings.Cut(line, ": ")
		if slices.Contains(strings.Fields(flags), strings.ReplaceAll(name, "_", "-")) {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// ourValue returns the replacement for a value of f as other programs have it, "" for none: a word and what modifies
// it, as in numa:PE=2. Lines of others have an n for a number, and a modifier alone behind "=:".
func ourValue(others string, f *pflag.Flag, text string) string {
	number := digits.FindString(text)
	replacement := func(text string) string {
		ours := ourFlag(others, f.Name+"="+strings.ToLower(digits.ReplaceAllString(text, "n")))
		return strings.ReplaceAll(ours, " N", " "+cmp.Or(number, "N"))
	}
	if ours := replacement(text); ours != "" {
		return ours
	}
	word, modifiers, _ := strings.Cut(text, ":")
	ours := []string{replacement(word)}
	if v, ok := f.Value.(*value[string]); ok && word != "" && slices.Contains(v.words, word) {
		ours[0] = "--" + f.Name + " " + word
	}
	for m := range strings.SplitSeq(modifiers, ":") {
		ours = append(ours, replacement(":"+m))
	}
	return strings.Join(slices.DeleteFunc(ours, func(s string) bool { return s == "" }), " and ")
}

// digits matches a number in the value of a flag, but not that in l3.
var digits = regexp.MustCompile(`\b[0-9]+\b`)

// Nearest returns the one of names that a user may have meant by word, "" for none: between the common beginning and
// end of both, the fewest letters differ, at most a third of the word's, or two have changed places.
func Nearest(word string, names []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		a, b := strings.ToLower(word), strings.ToLower(name)
		for a != "" && b != "" && a[0] == b[0] {
			a, b = a[1:], b[1:]
		}
		for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
			a, b = a[:len(a)-1], b[:len(b)-1]
		}
		distance := max(len(a), len(b))
		if distance == 2 && len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0] {
			distance = 1
		}
		if distance < least {
			best, least = name, distance
		}
	}
	return best
}

// takesNext reports whether the argument after this flag is its value.
func takesNext(arg string, flags *pflag.FlagSet) bool {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		f := flags.Lookup(name) // with "=VALUE" it finds none
		return f != nil && f.NoOptDefVal == ""
	}
	for i, c := range arg[1:] {
		if c > 0x7f {
			return false
		}
		if f := flags.ShorthandLookup(string(c)); f != nil && f.NoOptDefVal == "" {
			return i == len(arg)-2 // else the rest of arg is the value
		}
	}
	return false
}

// listFlags is an argument for which Parse only returns its flags, as an error: no user can type it.
const listFlags = "\x00"

type flagList struct{ flags *pflag.FlagSet }

// Error implements error; its text is never shown.
func (*flagList) Error() string { return "these are the flags" }

// FlagsOf returns the flags with which a command calls Parse.
func FlagsOf(command func(args []string) (int, error)) *pflag.FlagSet {
	_, err := command([]string{listFlags})
	if l, ok := errors.AsType[*flagList](err); ok {
		return l.flags
	}
	return pflag.NewFlagSet("", pflag.ContinueOnError)
}

// SetWords sets words that a flag takes, in addition to others.
func SetWords(f *pflag.FlagSet, flag string, words ...string) {
	_ = f.SetAnnotation(flag, "words", words) // only an unknown flag is an error
}

// Complete returns the words that may follow the arguments before of a command with these flags, in place of last, with
// which they may begin: values of a flag, or flags. Where other words may follow it returns none.
func Complete(flags *pflag.FlagSet, before []string, last string) (words []string) {
	before = doubleDashes(before, flags, "")
	for i := 0; i < len(before); i++ {
		switch arg := before[i]; {
		case !strings.HasPrefix(arg, "-"):
			return nil // the arguments after it are a program's own
		case takesNext(arg, flags) && i == len(before)-1:
			return completions(flags, arg, "", last)
		case takesNext(arg, flags):
			i++
		}
	}
	if flag, value, ok := strings.Cut(last, "="); ok {
		return completions(flags, flag, flag+"=", value)
	}
	if strings.HasPrefix(last, "-") {
		flags.VisitAll(func(f *pflag.Flag) { words = append(words, "--"+f.Name) })
	}
	return words
}

// completions returns the words that a flag takes after those that begun already has, separated by commas.
func completions(flags *pflag.FlagSet, flag, before, begun string) (list []string) {
	name := strings.TrimLeft(flag, "-")
	f := flags.Lookup(name)
	if len(name) == 1 {
		f = flags.ShorthandLookup(name)
	}
	if f == nil {
		return nil
	}
	words := f.Annotations["words"]
	if v, ok := f.Value.(*value[string]); ok && v.words != nil {
		words = v.words
	}
	for _, w := range words {
		if w != "" {
			list = append(list, before+begun[:strings.LastIndex(begun, ",")+1]+w)
		}
	}
	return list
}
