package docs_test

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAPI: the packages for users declare exactly what testdata/api lists, as go doc prints it on amd64, without
// comments. Then follow the members that their types have through aliases and embedded types. A change of these files
// is a change of the API, and belongs in the changelog. With -rewrite the test writes them.
func TestAPI(t *testing.T) {
	for pkg := range strings.FieldsSeq(forUsers) {
		got := declarations(t, pkg) + inherited(t, pkg)
		golden := filepath.Join("testdata", "api", strings.ReplaceAll(pkg, "/", "-")+".txt")
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		want := string(text)
		if want == got {
			continue
		}
		t.Errorf("package %s and %s differ:", pkg, golden)
		missing(t, "the package does not declare", want, got)
		missing(t, "the file does not list", got, want)
	}
}

// missing reports the lines of text that are not in other.
func missing(t *testing.T, what, text, other string) {
	t.Helper()
	lines := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			t.Errorf("%s: %s", what, line)
		}
	}
}

// declarations prints the exported declarations of a package, in the order of go doc.
func declarations(t *testing.T, pkg string) string {
	t.Helper()
	machine := build.Default
	machine.GOOS, machine.GOARCH, machine.CgoEnabled = "linux", "amd64", true
	folder := filepath.Join("..", pkg)
	found, err := machine.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(found.GoFiles, found.CgoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+pkg)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	write := func(decl ast.Decl) {
		if err := printer.Fprint(&out, fset, decl); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			write(v.Decl)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			f.Decl.Body = nil
			write(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		write(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	text := out.String()
	for _, name := range p.Imports { // where a name comes from inside is not the user's concern
		if strings.Contains(name, "/internal/") {
			text = regexp.MustCompile(`\b`+path.Base(name)+`\.`).ReplaceAllString(text, "internal.")
		}
	}
	return text
}
