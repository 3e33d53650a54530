package docs_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNames: the files and names of Go that the pages for developers quote exist. A name has at least two parts, such
// as `plan.Verify`, `Plan.Fuse` or `transport/tcp.conn.wmu`.
func TestNames(t *testing.T) {
	declared := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			for _, name := range namesOf(d) {
				for p := s.pkg; ; { // collective/plan.Plan.Fuse, plan.Plan.Fuse
					declared[p+"."+name] = true
					_, rest, more := strings.Cut(p, "/")
					if !more {
						break
					}
					p = rest
				}
				declared[name] = true // Plan.Fuse
			}
		}
	}
	quoted := regexp.MustCompile("`([^`\n]+)`")
	name, file := regexp.MustCompile(`^[\w/]+(\.[A-Za-z]\w+)+$`), regexp.MustCompile(`^[\w/*]+\.(go|h|c|sh|json)$`)
	inside, err := filepath.Glob("inside/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files, found := filesOf(t), 0
	for _, page := range append(inside, "architecture.md", "glossary.md") {
		for _, m := range quoted.FindAllStringSubmatch(read(t, page), -1) {
			switch text := m[1]; {
			case file.MatchString(text):
				found++
				if !slices.ContainsFunc(files, func(f string) bool { return ends(f, text) }) {
					t.Errorf("%s names the file %s, which does not exist", page, text)
				}
			case name.MatchString(text):
				found++
				if !declared[text] && text != "pids.max" { // a file of Linux
					t.Errorf("%s names %s, which no file declares", page, text)
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("found %d names: the test looks in the wrong place", found)
	}
}

// ends reports whether the last elements of a path match a pattern of as many.
func ends(name, pattern string) bool {
	parts, n := strings.Split(name, "/"), strings.Count(pattern, "/")+1
	ok, _ := path.Match(pattern, strings.Join(parts[max(0, len(parts)-n):], "/"))
	return ok
}

// filesOf returns the paths of all files of the repository.
func filesOf(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" && d.IsDir() {
			return fs.SkipDir
		}
		all = append(all, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// namesOf returns the names that d declares: X, and T.X for a method, a field or an embedded type.
func namesOf(d ast.Decl) (names []string) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv != nil {
			return []string{receiver(f) + "." + f.Name.Name}
		}
		return []string{f.Name.Name}
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
			var fields *ast.FieldList
			switch typ := spec.Type.(type) {
			case *ast.StructType:
				fields = typ.Fields
			case *ast.InterfaceType:
				fields = typ.Methods
			default:
				continue
			}
			for _, field := range fields.List {
				for _, name := range field.Names {
					names = append(names, spec.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return names
}
