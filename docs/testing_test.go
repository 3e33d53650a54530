package docs_test

import (
	"go/ast"
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
	for name, found := range listed {
		if !found {
			t.Errorf("testing.md lists %s, which no file has", name)
		}
	}
	if len(listed) < 50 {
		t.Errorf("found %d variables: the test looks in the wrong place", len(listed))
	}
}

// variables returns the names of all variables in Go files and scripts, in strings of C files, and of the settings that
// have variables by job.Variable, each with a file.
func variables(t *testing.T) map[string]string {
	t.Helper()
	word, quoted := regexp.MustCompile(`\bTREERUN_\w*[A-Z]\b`), regexp.MustCompile(`"(TREERUN_\w*[A-Z])"`)
	found := settingVariables(t)
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

// settingVariables returns the variables of settings, each with a file: those of the list variables of package environ,
// which has all that the launcher reads, too, and of arguments of job.Variable.
func settingVariables(t *testing.T) map[string]string {
	t.Helper()
	constants, settings := map[string]string{}, map[ast.Expr]string{}
	for _, s := range sources(t) {
		if s.test || !slices.Contains(s.imported(), module+"/internal/job") {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			var found []ast.Expr
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					list, ok := value.(*ast.CompositeLit)
					if ok && n.Names[i].Name == "variables" {
						found = list.Elts
					} else if text, ok := literal(value); ok {
						constants[n.Names[i].Name] = text
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Variable" {
					found = n.Args
				}
			}
			for _, setting := range found {
				settings[setting] = s.path
			}
			return true
		})
	}
	all := map[string]string{}
	for setting, file := range settings {
		text, _ := literal(setting)
		if name, ok := setting.(*ast.Ident); ok {
			text = constants[name.Name] // none for a variable
		}
		if text != "" {
			all["TREERUN_"+strings.ToUpper(strings.ReplaceAll(text, "-", "_"))] = file // job.Variable
		}
	}
	return all
}
