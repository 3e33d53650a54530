package docs_test

import (
	"go/ast"
	"os"
	"regexp"
	"testing"
)

// TestSecurityPointers: every test that security.md names exists.
func TestSecurityPointers(t *testing.T) {
	text, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`((Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("security.md names %d tests", len(named))
	}
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("security.md: there is no test %s", name[1])
		}
	}
}
