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
// and a row without a test begins with no. A row of calls names their examples.
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
	rows, calls := 0, false
	for line := range strings.Lines(read(t, "features.md")) {
		calls = calls || line == "## Calls\n"
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.Contains(line, "---|---") || strings.Contains(line, "shown by") {
			continue
		}
		rows++
		tests := name.FindAllStringSubmatch(cells[4], -1)
		no := strings.HasPrefix(strings.TrimSpace(cells[3]), "no")
		if len(tests) == 0 && !no {
			t.Errorf("no test shows %s", line)
		}
		for _, m := range tests {
			if !slices.Contains(where[m[2]], m[1]) && (m[1] != "" || !nameless(where[m[2]])) {
				t.Errorf("there is no %s in %q, but in %q: %s", m[2], m[1], where[m[2]], line)
			}
			if _, err := os.Stat("../cmd/treerun/testdata/script/" + m[3] + ".txtar"); m[3] != "" && err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		for _, example := range examplesOf(cells[3]) {
			if calls && !no && nameless(where[example]) && !strings.Contains(cells[4], "`"+example+"`") {
				t.Errorf("%s is not in the row %s", example, line)
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

// nameless reports whether one of these packages is not named with its tests in a row: a package for users, whose
// examples these are, or treerun.
func nameless(packages []string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		return p == "cmd/treerun" || slices.Contains(strings.Fields(forUsers), p)
	})
}

// examplesOf returns the names that examples of the functions and methods in a text have.
func examplesOf(text string) (names []string) {
	types := map[string]string{"c": "Comm_", "w": "World_", "Grid": "Grid_", "Message": "Message_", "Request": "Request_"}
	for _, m := range regexp.MustCompile("`(?:(\\w+)\\.)?([A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
		names = append(names, "Example"+types[m[1]]+m[2])
	}
	return names
}
