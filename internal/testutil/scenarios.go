package testutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scenarios checks the files testdata/*.txt of a package. Empty lines separate the blocks of a file. A block with a
// line "----" is an input and below that line the output, which must be what run returns for the input; others are
// comments. With rewrite it writes the output into the files.
func Scenarios(t *testing.T, rewrite bool, run func(input string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			got := block
			if input, _, found := strings.Cut(block, "\n----"); found {
				got = strings.TrimSpace(input + "\n----\n" + run(input))
			}
			if got != block && !rewrite {
				t.Errorf("%s: want\n%s\n\ngot\n%s", file, block, got)
			}
			out = append(out, got)
		}
		if rewrite {
			if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
