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

// decodes reports whether an expression reads numbers or fields out of bytes: a function of a
// decoder, or of an order of bytes.
func decodes(e ast.Expr) bool {
	call, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := call.Sel.Name
	switch x := call.X.(type) {
	case *ast.Ident: // strict.UnmarshalJSON, msgpack.NewDecoder, binary.Uvarint, ...
		switch x.Name {
		case "strict", "json", "msgpack":
			return strings.HasPrefix(name, "Unmarshal") || name == "NewDecoder"
		case "binary":
			return strings.HasSuffix(name, "arint") || name == "Read" || name == "Decode"
		}
	case *ast.SelectorExpr: // binary.LittleEndian.Uint32, ...
		of, ok := x.X.(*ast.Ident)
		return ok && of.Name == "binary" && strings.HasPrefix(name, "Uint")
	}
	return false
}

// ownBytes are the packages that read numbers only out of bytes that they have made.
var ownBytes = []string{"cuda/kernels"}

// TestDecodersAreFuzzed: a package that decodes bytes has a fuzz test.
func TestDecodersAreFuzzed(t *testing.T) {
	decoders, fuzzed := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Fuzz") {
				fuzzed[s.pkg] = true
			}
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && !s.test && decodes(e) {
				decoders[s.pkg] = s.path
			}
			return true
		})
	}
	if len(decoders) < 20 {
		t.Fatalf("found %d packages that decode: the test looks for the wrong names", len(decoders))
	}
	for pkg, file := range decoders {
		if !fuzzed[pkg] && !slices.Contains(ownBytes, pkg) {
			t.Errorf("%s decodes bytes, and package %s has no fuzz test", file, pkg)
		}
	}
}

// TestCorpora: a corpus belongs to a fuzz test of its package: a test that has moved away or was
// removed leaves a corpus that no test runs.
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
