package cmdline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                        nil,
		"  ip netns  exec {host}": {"ip", "netns", "exec", "{host}"},
		`env A='b c' "d e"f \ g`:  {"env", "A=b c", "d ef", " g"},
		`sh -c 'exec "$@"' -`:     {"sh", "-c", `exec "$@"`, "-"},
		`'' "a\"b" 'c\d'`:         {"", `a"b`, `c\d`},
	} {
		got, err := SplitWords(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Words(%s) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"'", `"a`, `a\`, `'a"`} {
		if got, err := SplitWords(text); err == nil {
			t.Errorf("Words(%s) = %q and no error", text, got)
		}
	}
}

// Words splits quoted words into the original ones.
func TestQuotedWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.String()).Draw(t, "words")
		var quoted []string
		for _, w := range want {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		got, err := SplitWords(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	})
}

func TestRankSet(t *testing.T) {
	for text, want := range map[string]string{"3": "[3]", "0,4-7": "[0 4 5 6 7]", "5,1-2,2": "[1 2 5]", "": "", "-1": "",
		"1-": "", "4-2": "", "x": "", "1]": "", "70000": "", "1,,2": ""} {
		var got []int
		err := RankSet(&got).Set(text)
		if err != nil != (want == "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}
