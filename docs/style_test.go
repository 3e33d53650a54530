package docs_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFile     = 450 // lines; aim at 400
	maxFunction = 80  // lines; aim at 70
)

// TestEverythingExportedIsDocumented wants a doc comment on each exported name and on
// each package. In files for other systems than Linux one comment may serve several stubs.
func TestEverythingExportedIsDocumented(t *testing.T) {
	described := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		described[s.pkg] = described[s.pkg] || len(s.Doc.Text()) > 60
		for _, d := range s.Decls {
			for _, name := range undocumented(d) {
				if strings.HasSuffix(s.path, "_other.go") {
					continue
				}
				t.Errorf("%s: %s has no doc comment", fset.Position(d.Pos()), name)
			}
		}
	}
	for pkg, ok := range described {
		if !ok {
			t.Errorf("package %s: no doc comment describes it and its importers", pkg)
		}
	}
}

// undocumented returns the exported names that d declares without a comment.
func undocumented(d ast.Decl) []string {
	var bare []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc.Text() == "" && exportedReceiver(d) {
			bare = append(bare, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc.Text() == "" && d.Doc.Text() == "" {
					bare = append(bare, spec.Name.Name)
				}
			case *ast.ValueSpec: // one comment may serve a whole group
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc.Text()+spec.Comment.Text()+d.Doc.Text() == "" {
						bare = append(bare, name.Name)
					}
				}
			}
		}
	}
	return bare
}

// TestSkips: a test skips only checks that the machine does not support, through package
// require, so that the skip can be forbidden. Fuzz tests may skip inputs:
// t.Skip() without a reason.
func TestSkips(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg == "internal/testutil" {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := method.X.(*ast.Ident)
			if !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, of.Name) {
				return true
			}
			name := method.Sel.Name
			if name == "Skipf" || name == "SkipNow" || name == "Skip" && len(call.Args) > 0 {
				t.Errorf("%s:%d: %s.%s, want require.Need", s.path, fset.Position(call.Pos()).Line, of.Name, name)
			}
			return true
		})
	}
}

// exportedReceiver reports whether d is a function, or a method that users see.
func exportedReceiver(d *ast.FuncDecl) bool { return d.Recv == nil || ast.IsExported(receiver(d)) }

// maxColumns is the longest permitted line, except in a raw string or in the output of an
// example.
const maxColumns = 120

// TestColumns keeps lines short enough to be read.
func TestColumns(t *testing.T) {
	for _, s := range sources(t) {
		raw := make(map[int]bool) // lines with a part of a raw string
		ast.Inspect(s.File, func(n ast.Node) bool {
			if l, is := n.(*ast.BasicLit); is && strings.HasPrefix(l.Value, "`") {
				for i := fset.Position(l.Pos()).Line; i <= fset.Position(l.End()).Line; i++ {
					raw[i] = true
				}
			}
			return true
		})
		text, err := os.ReadFile(filepath.Join("..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			printed := strings.HasPrefix(line, "\t// ") && strings.HasSuffix(s.path, "example_test.go")
			if n := utf8.RuneCountInString(line); n > maxColumns && !raw[i+1] && !printed {
				t.Errorf("%s:%d has %d columns, more than %d", s.path, i+1, n, maxColumns)
			}
		}
	}
}

// TestLengths keeps files and functions short enough to be read.
func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxFile {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, maxFile)
		}
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunction {
					t.Errorf("%s: %s has %d lines, more than %d", fset.Position(f.Pos()), f.Name.Name, n, maxFunction)
				}
			}
		}
	}
}
