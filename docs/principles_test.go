package docs_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDecodersAreFuzzed: a package that decodes what comes from outside, with internal/strict,
// has a fuzz test.
func TestDecodersAreFuzzed(t *testing.T) {
	decodes, fuzzed := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Fuzz") {
				fuzzed[s.pkg] = true
			}
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || s.test || !strings.HasPrefix(call.Sel.Name, "Unmarshal") {
				return true
			}
			if of, ok := call.X.(*ast.Ident); ok && of.Name == "strict" {
				decodes[s.pkg] = s.path
			}
			return true
		})
	}
	if len(decodes) < 5 {
		t.Fatalf("found %d packages that decode: the test looks for the wrong names", len(decodes))
	}
	for pkg, file := range decodes {
		if !fuzzed[pkg] {
			t.Errorf("%s decodes what comes from outside, and package %s has no fuzz test", file, pkg)
		}
	}
}

// TestCorpora: a corpus belongs to a fuzz test of its package: one that has moved away or is
// gone leaves it without anybody who runs it.
func TestCorpora(t *testing.T) {
	count := 0
	err := filepath.WalkDir("..", func(folder string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.HasSuffix(filepath.Dir(folder), "/testdata/fuzz") {
			return err
		}
		count++
		tests, _ := filepath.Glob(filepath.Join(folder, "../../../*_test.go")) // the pattern is good
		has := func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+filepath.Base(folder)+"(")
		}
		if !slices.ContainsFunc(tests, has) {
			t.Errorf("%s: no fuzz test of this package has the name", folder)
		}
		return filepath.SkipDir
	})
	if err != nil || count < 20 {
		t.Errorf("%d corpora, %v: the test looks at the wrong place", count, err)
	}
}

// TestPrinciples: the tests that principles.md names are there.
func TestPrinciples(t *testing.T) {
	text, err := os.ReadFile("principles.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				there[s.pkg+": "+f.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`([a-z/]+: Test[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 10 {
		t.Errorf("principles.md names %d tests", len(named))
	}
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("principles.md names %s, which is not there", name[1])
		}
	}
}
