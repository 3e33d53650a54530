// Package docs_test holds the rules of the repository that a program can
// check: who may import whom, where unsafe, cgo and each library may be used,
// that everything exported is documented, and how long files and functions may
// get. It reads every Go file, whatever its build tags. Nothing imports it.
package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/treerun/treerun"

// imports says which packages of ours each package may import. An import that
// is not listed fails, and so does a listed one that is not used. The same
// table stands in architecture.md, for people. Test files are free.
var imports = map[string]string{
	"topo":                             "",
	"topo/tree":                        "topo",
	"topo/probe":                       "topo transport",
	"topo/pack":                        "topo",
	"topo/draw":                        "topo",
	"topo/machines":                    "topo",
	"transport":                        "",
	"transport/internal/osys":          "",
	"transport/internal/ring":          "transport",
	"transport/internal/segment":       "transport transport/internal/ring",
	"transport/mem":                    "transport transport/internal/segment",
	"transport/shm":                    "transport transport/internal/osys transport/internal/segment",
	"transport/transporttest":          "transport",
	"collective/plan":                  "topo",
	"collective/sim":                   "collective/plan topo",
	"collective/sim/figures":           "collective/plan collective/sim topo topo/machines topo/tree",
	"collective/sim/figures/report":    "collective/sim collective/sim/figures",
	"collective/internal/kernel":       "",
	"collective/internal/exec":         "collective/internal/kernel collective/plan transport",
	"collective":                       "collective/internal/exec collective/internal/kernel collective/plan collective/sim rank/strict topo topo/pack topo/probe topo/tree transport transport/shm",
	"rank/strict":                      "",
	"rank/job":                         "rank/strict",
	"rank":                             "rank/job rank/strict topo",
	"cuda":                             "",
	"cmd/treerun":                      "cmd/treerun/internal/cli cmd/treerun/internal/exitcode cmd/treerun/internal/guard",
	"cmd/treerun/internal/bench":       "cmd/treerun/internal/bench/chart cmd/treerun/internal/bench/meter cmd/treerun/internal/bench/suite cmd/treerun/internal/bench/table cmd/treerun/internal/bench/tuner cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/output cmd/treerun/internal/selfrun",
	"cmd/treerun/internal/bench/chart": "cmd/treerun/internal/bench/suite cmd/treerun/internal/cmdline",
	"cmd/treerun/internal/bench/meter": "cmd/treerun/internal/bench/suite collective collective/plan rank",
	"cmd/treerun/internal/bench/suite": "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode",
	"cmd/treerun/internal/bench/table": "cmd/treerun/internal/bench/suite",
	"cmd/treerun/internal/bench/tuner": "cmd/treerun/internal/bench/suite cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode collective collective/plan",
	"cmd/treerun/internal/cli":         "cmd/treerun/internal/bench cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/launch cmd/treerun/internal/measure cmd/treerun/internal/output cmd/treerun/internal/planner cmd/treerun/internal/program cmd/treerun/internal/selfrun topo",
	"cmd/treerun/internal/cmdline":     "cmd/treerun/internal/exitcode cuda rank/job",
	"cmd/treerun/internal/exitcode":    "",
	"cmd/treerun/internal/guard":       "rank/job",
	"cmd/treerun/internal/launch":      "cmd/treerun/internal/exitcode cmd/treerun/internal/guard cmd/treerun/internal/output cmd/treerun/internal/pipe rank/job topo",
	"cmd/treerun/internal/measure":     "cmd/treerun/internal/exitcode cmd/treerun/internal/output cmd/treerun/internal/selfrun collective rank topo",
	"cmd/treerun/internal/output":      "cmd/treerun/internal/pipe",
	"cmd/treerun/internal/pipe":        "",
	"cmd/treerun/internal/planner":     "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode collective/plan collective/sim topo topo/draw topo/machines topo/pack topo/tree",
	"cmd/treerun/internal/program":     "cmd/treerun/internal/exitcode",
	"cmd/treerun/internal/selfrun":     "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/launch cmd/treerun/internal/output",
	"docs/require":                     "",
	"examples/hello":                   "collective rank",
	"examples/train":                   "collective rank",
	"scripts/onehost":                  "",
	"scripts/onehost/serial":           "collective rank",
}

// libraries says who may import a module or package of somebody else. A
// library of production code that is not listed fails. "cmd/..." stands for
// the folder and everything below it.
var libraries = map[string]string{
	"github.com/hashicorp/memberlist":   "rank",
	"github.com/vmihailenco/msgpack/v5": "rank/strict rank/job rank collective",
	"github.com/spf13/pflag":            "cmd/... examples/...",
	"golang.org/x/sys":                  "transport/internal/osys cmd/...",
	"golang.org/x/term":                 "cmd/...",
	"gonum.org/v1/gonum":                "examples/train",
	"gonum.org/v1/plot":                 "collective/sim/figures/report cmd/treerun/internal/bench/chart scripts/onehost",
}

// forbidden holds what the pure packages may not touch: anything that does
// I/O, reads a clock or the environment, runs concurrently or is random. Of
// math/rand/v2 they may use generators with a fixed seed.
var (
	pure      = []string{"topo", "topo/tree", "topo/pack", "topo/draw", "topo/machines", "collective/plan", "collective/sim", "collective/sim/figures"}
	seeded    = []string{"New", "NewPCG", "Rand", "PCG"} // of math/rand/v2
	forbidden = []string{"math/rand", "os", "net", "time", "sync", "syscall", "runtime", "context", "log", "crypto/rand", "io/fs", "unsafe"}
)

const (
	maxFile     = 450 // lines; aim at 400
	maxFunction = 80  // lines; aim at 70
)

// source is one parsed Go file.
type source struct {
	path string // from the root of the repository, with slashes
	pkg  string // its folder
	test bool
	*ast.File
	lines int
}

var fset = token.NewFileSet()

// sources parses every Go file of the repository except test data.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name() == "testdata" || d.Name()[0] == '.' || d.Name()[0] == '_'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file, bytes.Count(text, []byte("\n"))})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 {
		t.Fatalf("found %d Go files: the test looks in the wrong place", len(all))
	}
	return all
}

func (s source) imported() []string {
	var list []string
	for _, spec := range s.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has read it
		}
		list = append(list, name)
	}
	return list
}

// within tells whether pkg is p, or below it when p ends in "/...".
func within(pkg, p string) bool {
	above, tree := strings.CutSuffix(p, "/...")
	return pkg == p || tree && (pkg == above || strings.HasPrefix(pkg, above+"/"))
}

func TestImportsOfOurs(t *testing.T) {
	used := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		used[s.pkg] = append(used[s.pkg], "")
		for _, name := range s.imported() {
			if ours, ok := strings.CutPrefix(name, module+"/"); ok {
				used[s.pkg] = append(used[s.pkg], ours)
				if !slices.Contains(strings.Fields(imports[s.pkg]), ours) {
					t.Errorf("%s: %s may not import %s", s.path, s.pkg, ours)
				}
			}
		}
	}
	for pkg, list := range imports {
		if used[pkg] == nil {
			t.Errorf("the table names package %s, which does not exist", pkg)
		}
		for _, name := range strings.Fields(list) {
			if !slices.Contains(used[pkg], name) {
				t.Errorf("the table lets %s import %s, but it does not", pkg, name)
			}
		}
	}
	for pkg := range used {
		if _, ok := imports[pkg]; !ok {
			t.Errorf("package %s is not in the table of imports", pkg)
		}
	}
}

func TestLibraries(t *testing.T) {
	for _, s := range sources(t) {
		for _, name := range s.imported() {
			first, _, _ := strings.Cut(name, "/")
			if s.test || name == module || strings.HasPrefix(name, module+"/") || !strings.Contains(first, ".") {
				continue
			}
			allowed := slices.ContainsFunc(slices.Collect(maps.Keys(libraries)), func(lib string) bool {
				return within(name, lib+"/...") && slices.ContainsFunc(strings.Fields(libraries[lib]), func(p string) bool { return within(s.pkg, p) })
			})
			if !allowed {
				t.Errorf("%s: %s may not import %s", s.path, s.pkg, name)
			}
		}
	}
}

func TestUnsafeAndCgo(t *testing.T) {
	for _, s := range sources(t) {
		for _, name := range s.imported() {
			base := strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test")
			if name == "unsafe" && !strings.HasSuffix(base, "_unsafe") {
				t.Errorf("%s: unsafe belongs into a file named *_unsafe.go", s.path)
			}
			if name == "C" && s.pkg != "collective/internal/kernel" {
				t.Errorf("%s: only collective/internal/kernel uses cgo", s.path)
			}
		}
	}
}

func TestPurePackages(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, name := range s.imported() {
			for _, bad := range forbidden {
				if within(name, bad+"/...") && name != "math/rand/v2" {
					t.Errorf("%s: %s is pure and may not import %s", s.path, s.pkg, name)
				}
			}
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "rand" && ast.IsExported(n.Sel.Name) && !slices.Contains(seeded, n.Sel.Name) {
					t.Errorf("%s: %s is pure: no rand.%s, only generators with a fixed seed", fset.Position(n.Pos()), s.pkg, n.Sel.Name)
				}
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s: %s is pure: no goroutines, no channels", fset.Position(n.Pos()), s.pkg)
			}
			return true
		})
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	described := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		described[s.pkg] = described[s.pkg] || len(s.Doc.Text()) > 60
		for _, d := range s.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no doc comment", fset.Position(d.Pos()), name)
			}
		}
	}
	for pkg, ok := range described {
		if !ok {
			t.Errorf("package %s: no doc comment says what it is and who may import it", pkg)
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

// TestSkips: a test skips only what the machine cannot do, through package
// require, so that the skip can be forbidden. Fuzz tests may pass over inputs:
// t.Skip() without a reason.
func TestSkips(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg == "docs/require" {
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

// exportedReceiver tells whether d is a function, or a method that users see.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}
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

// TestArchitectureTable keeps the table of architecture.md equal to imports:
// rows "| `package` | what it is | `import`, `import` |".
func TestArchitectureTable(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		pkg := strings.Trim(cells[1], " `")
		list := strings.Fields(strings.NewReplacer("`", " ", ",", " ").Replace(cells[3]))
		if _, twice := told[pkg]; twice {
			t.Errorf("architecture.md: package %s stands twice", pkg)
		}
		told[pkg] = fmt.Sprint(list)
	}
	for pkg, list := range imports {
		if want := fmt.Sprint(strings.Fields(list)); told[pkg] != want {
			t.Errorf("architecture.md: %s imports %s, want %s", pkg, told[pkg], want)
		}
		delete(told, pkg)
	}
	for pkg := range told {
		t.Errorf("architecture.md: unknown package %s", pkg)
	}
}
