package docs_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// withoutExample are the exported functions and methods that no Example calls, and why.
var withoutExample = map[string]string{
	"collective UnusedPlan":  "Close returns it",
	"cuda Open":              "every other call does it",
	"cuda Stats":             "for tests that look for open resources",
	"cuda Abandon":           "for callers that know that work never ends",
	"cuda EnablePeer":        "for peers of one process: treerun has one device in each",
	"cuda RegisterHost":      "for memory that processes share",
	"cuda NewWaitingStreams": "for what treerun does between devices",
	"cuda Handle":            "for other libraries",
	"cuda MemOps":            "for what treerun does between devices",
	"cuda TryStreamMemOps":   "for MemOps",
	"cuda Check":             "every call does it",
	"cuda CheckUncaptured":   "every collective does it",
	"cuda Device":            "of an object that was made on it",
	"cuda Error":             "errors are printed",
	"cuda Is":                "errors.Is calls it",
	"rank AtFault":           "Failure returns it",
	"rank Error":             "errors are printed",
	"rank Unwrap":            "errors.Is calls it",
	"rank Setting":           "for package collective",
	"rank Waits":             "for package collective",
}

// TestEverythingHasAnExample wants each function and method that a program calls in an Example of its package.
func TestEverythingHasAnExample(t *testing.T) {
	packages := []string{"collective", "collective/sparse", "cuda", "rank"}
	shown, exported := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if !slices.Contains(packages, s.pkg) {
			continue
		}
		for _, d := range s.Decls {
			f, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case s.test && strings.HasPrefix(f.Name.Name, "Example"):
				ast.Inspect(f, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						shown[s.pkg+" "+called(call.Fun)] = true
					}
					return true
				})
			case !s.test && f.Name.IsExported() && exportedReceiver(f):
				exported[s.pkg+" "+f.Name.Name] = true
			}
		}
	}
	for name := range exported {
		_, listed := withoutExample[name]
		if !shown[name] && !listed {
			t.Errorf("no Example calls %s", name)
		}
		if shown[name] && listed {
			t.Errorf("an Example calls %s: remove it from the list", name)
		}
	}
	for name := range withoutExample {
		if !exported[name] {
			t.Errorf("the list names %s, which is not there", name)
		}
	}
	if len(exported) < 150 {
		t.Errorf("found %d functions: the test looks in the wrong place", len(exported))
	}
}

// called returns the name of the function or method f of another package, "" of others.
func called(f ast.Expr) string {
	if generic, ok := f.(*ast.IndexExpr); ok {
		f = generic.X
	}
	if x, ok := f.(*ast.SelectorExpr); ok {
		return x.Sel.Name
	}
	return ""
}
