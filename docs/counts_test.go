package docs_test

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lines counts lines of Go. One with code and a comment is code.
type lines struct{ code, comments, blank int }

func (l *lines) add(text []byte) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, scanner.ScanComments)
	kinds := make([]token.Token, strings.Count(string(text), "\n")+2) // by line
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		for i := first; i <= first+strings.Count(literal, "\n"); i++ {
			if kinds[i] != token.IDENT {
				kinds[i] = token.IDENT
				if tok == token.COMMENT {
					kinds[i] = tok
				}
			}
		}
	}
	for _, kind := range kinds[1 : len(kinds)-1] {
		switch kind {
		case token.IDENT:
			l.code++
		case token.COMMENT:
			l.comments++
		default:
			l.blank++
		}
	}
}

func (l lines) String() string {
	return fmt.Sprintf("%6d code, %5d comments, %5d blank", l.code, l.comments, l.blank)
}

// TestCounts prints figures of the source with -v: scripts/counts.sh.
func TestCounts(t *testing.T) {
	if !testing.Verbose() {
		return
	}
	var outside, support, tests lines
	packages := map[string]bool{}
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join("..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		if s.test {
			tests.add(text)
			continue
		}
		packages[s.pkg] = true
		if within(s.pkg, testSupport) {
			support.add(text)
		}
		outside.add(text)
	}
	fmt.Printf("Go outside tests:     %v\n    of it test support: %v\nGo in tests:          %v\npackages: %d\n", outside,
		support, tests, len(packages))
	fmt.Println("largest types, by methods:")
	methods := methodsOf(t)
	byMethods := slices.SortedFunc(maps.Keys(methods), func(a, b string) int {
		return methods[b]<<10 - methods[a]<<10 + strings.Compare(a, b)
	})
	for _, name := range byMethods[:10] {
		fmt.Printf("%6d %s\n", methods[name], name)
	}
	fmt.Printf("imports that go up: %d\n", len(upwards(t)))
	fmt.Println("longest sentences, in words:")
	pages, _ := filepath.Glob("inside/*.md")
	for _, page := range pages {
		words, _ := longestSentence(t, page)
		fmt.Printf("%6d docs/%s\n", words, page)
	}
}

// maxMethods is the largest permitted number of methods of a type. The launcher's supervisor is one goroutine's state.
const (
	maxMethods = 30
	supervisor = "cmd/treerun/internal/launch.supervisor"
)

// TestMethods keeps types small enough to be understood.
func TestMethods(t *testing.T) {
	for name, n := range methodsOf(t) {
		if n > maxMethods && name != supervisor {
			t.Errorf("%s has %d methods, more than %d", name, n, maxMethods)
		}
	}
}

// methodsOf counts the methods of each type outside tests. A method that several builds have counts once.
func methodsOf(t *testing.T) map[string]int {
	methods, counted := map[string]int{}, map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && !s.test {
				name := s.pkg + "." + receiver(f)
				if method := name + "." + f.Name.Name; !counted[method] {
					counted[method] = true
					methods[name]++
				}
			}
		}
	}
	return methods
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	return typ.(*ast.Ident).Name
}
