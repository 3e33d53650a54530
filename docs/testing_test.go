package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVariables: the table of testing.md lists every variable TREERUN_* that the code reads or sets, and no other.
func TestVariables(t *testing.T) {
	listed := map[string]bool{} // whether the code has it
	for line := range strings.Lines(read(t, "testing.md")) {
		if m := regexp.MustCompile("^\\| `(TREERUN_\\w+)` \\|").FindStringSubmatch(line); m != nil {
			listed[m[1]] = false
		}
	}
	for name, file := range variables(t) {
		if _, ok := listed[name]; !ok {
			t.Errorf("%s has the variable %s, which testing.md does not list", file, name)
		}
		listed[name] = true
	}
	options := read(t, "options.md")
	for name, found := range listed {
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "TREERUN_")), "_", "-") // of job.Variable
		if !found && !strings.Contains(options, "--"+flag+" ") {
			t.Errorf("testing.md lists %s, which no file has", name)
		}
	}
	if len(listed) < 50 {
		t.Errorf("found %d variables: the test looks in the wrong place", len(listed))
	}
}

// variables returns the names of all variables in Go files and scripts, and in strings of C files, each with a file.
func variables(t *testing.T) map[string]string {
	t.Helper()
	word, quoted := regexp.MustCompile(`\bTREERUN_\w*[A-Z]\b`), regexp.MustCompile(`"(TREERUN_\w*[A-Z])"`)
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		pattern := word
		switch ext := path.Ext(name); {
		case ext == ".c" || ext == ".h":
			pattern = quoted
		case !slices.Contains([]string{".go", ".sh", ".txtar"}, ext) && name != ".ci/run":
			return nil
		}
		text, err := os.ReadFile("../" + name)
		for _, m := range pattern.FindAllString(string(text), -1) {
			found[strings.Trim(m, `"`)] = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
