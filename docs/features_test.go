package docs_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFeatures: the tests that features.md names in a row exist, each flag of treerun in it exists,
// and a row without a test begins with no.
func TestFeatures(t *testing.T) {
	where := map[string][]string{} // the packages that have a test
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				where[f.Name.Name] = append(where[f.Name.Name], s.pkg)
			}
		}
	}
	options, name := read(t, "options.md"), regexp.MustCompile("`(?:([a-z/]+)\\.)?(\\w+)(?:/(\\w+))?`")
	rows := 0
	for line := range strings.Lines(read(t, "features.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.Contains(line, "---|---") || strings.Contains(line, "shown by") {
			continue
		}
		rows++
		tests := name.FindAllStringSubmatch(cells[4], -1)
		if no := strings.HasPrefix(strings.TrimSpace(cells[3]), "no"); len(tests) == 0 && !no {
			t.Errorf("no test shows %s", line)
		}
		for _, m := range tests {
			if !slices.Contains(where[m[2]], m[1]) && (m[1] != "" || where[m[2]] == nil) {
				t.Errorf("there is no %s in %q, but in %q: %s", m[2], m[1], where[m[2]], line)
			}
			if _, err := os.Stat("../cmd/treerun/testdata/script/" + m[3] + ".txtar"); m[3] != "" && err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		for _, flag := range regexp.MustCompile("--[a-z-]+").FindAllString(cells[3], -1) {
			if !strings.Contains(options, flag+" ") {
				t.Errorf("treerun has no %s: %s", flag, line)
			}
		}
	}
	if rows < 100 {
		t.Errorf("found %d rows: the test looks in the wrong place", rows)
	}
}
