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
	"internal/safefile":                "",
	"internal/numbers":                 "",
	"internal/strictjson":              "",
	"topo":                             "internal/numbers internal/strictjson",
	"topo/tree":                        "topo",
	"topo/probe":                       "internal/numbers internal/safefile internal/strictjson topo topo/network transport",
	"topo/pack":                        "internal/numbers topo",
	"topo/network":                     "internal/numbers internal/strictjson topo",
	"topo/draw":                        "internal/numbers topo",
	"topo/machines":                    "topo",
	"topo/gpu":                         "internal/numbers topo",
	"transport":                        "",
	"transport/internal/coop":          "transport",
	"transport/internal/explore":       "",
	"transport/internal/osys":          "",
	"transport/internal/ring":          "transport",
	"transport/internal/segment":       "transport transport/internal/coop transport/internal/ring",
	"transport/mixed":                  "transport",
	"transport/mem":                    "transport transport/internal/segment",
	"transport/ports":                  "",
	"internal/netconn":                 "transport/ports",
	"transport/tcp":                    "internal/netconn transport transport/internal/osys",
	"internal/testutil/faultproxy":     "",
	"transport/shm":                    "transport transport/internal/osys transport/internal/segment",
	"transport/transporttest":          "transport",
	"collective/plan":                  "internal/strictjson topo",
	"collective/sim":                   "collective/plan topo",
	"collective/planner":               "collective/plan collective/sim topo topo/pack topo/tree",
	"collective/internal/kernel":       "",
	"collective/internal/fuse":         "collective/plan",
	"collective/internal/exec":         "collective/internal/fuse collective/internal/kernel collective/plan internal/waits transport",
	"collective/internal/devexec":      "collective/internal/fuse collective/internal/kernel collective/plan cuda transport",
	"collective/sparse/block":          "collective/internal/kernel",
	"collective/sparse/omni":           "collective/internal/kernel collective/sparse/block",
	"collective/sparse/sparsetest":     "collective/internal/kernel collective/sparse/block",
	"collective/sparse/merge":          "collective/sparse/block",
	"collective/sparse/forest":         "collective/internal/kernel collective/sparse/block collective/sparse/merge",
	"collective/sparse/pool":           "collective/internal/kernel collective/sparse/block",
	"collective/internal/side":         "collective/internal/exec collective/internal/kernel cuda topo transport",
	"collective":                       "collective/internal/devexec collective/internal/exec collective/internal/kernel collective/internal/side collective/plan collective/planner cuda cuda/kernels cuda/peers internal/netconn internal/safefile internal/waits rank/iface rank/machine rank/strict topo topo/gpu topo/machines topo/network topo/probe transport transport/mem transport/mixed transport/ports transport/shm transport/tcp",
	"collective/sparse/internal/drive": "collective/internal/exec collective/sparse/merge collective/sparse/omni collective/sparse/pool internal/waits topo transport",
	"collective/sparse":                "collective collective/internal/exec collective/internal/kernel collective/internal/side collective/sparse/block collective/sparse/forest collective/sparse/internal/drive collective/sparse/merge collective/sparse/omni collective/sparse/pool cuda cuda/kernels internal/waits topo transport",
	"rank/strict":                      "",
	"rank/job":                         "rank/strict",
	"internal/testutil/nets":           "topo",
	"internal/testutil/ranktest":       "internal/waits topo",
	"rank/keyfile":                     "internal/safefile rank/job",
	"rank/iface":                       "",
	"rank/machine":                     "",
	"rank":                             "internal/netconn internal/procstate internal/safefile internal/waits rank/iface rank/job rank/keyfile rank/strict topo transport/ports",
	"cuda":                             "cuda/internal/driver",
	"cuda/internal/driver":             "",
	"cuda/kernels":                     "cuda",
	"cuda/kernels/compile":             "",
	"cuda/nvml":                        "topo/gpu",
	"cuda/peers":                       "cuda cuda/nvml internal/strictjson topo topo/gpu topo/network topo/probe",
	"cmd/treerun/internal/gpus":        "cmd/treerun/internal/exitcode cuda cuda/nvml internal/numbers topo/gpu",
	"cmd/treerun":                      "cmd/treerun/internal/agent cmd/treerun/internal/cli cmd/treerun/internal/exitcode cmd/treerun/internal/guard",
	"cmd/treerun/internal/bench":       "cmd/treerun/internal/bench/chart cmd/treerun/internal/bench/meter cmd/treerun/internal/bench/suite cmd/treerun/internal/bench/table cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/launch cmd/treerun/internal/output cmd/treerun/internal/place cmd/treerun/internal/planner cmd/treerun/internal/selfrun",
	"cmd/treerun/internal/bench/chart": "cmd/treerun/internal/bench/suite cmd/treerun/internal/cmdline",
	"cmd/treerun/internal/bench/meter": "cmd/treerun/internal/bench/suite collective collective/plan collective/sparse cuda internal/numbers rank",
	"cmd/treerun/internal/bench/suite": "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode",
	"cmd/treerun/internal/bench/table": "cmd/treerun/internal/bench/suite",
	"cmd/treerun/internal/cli":         "cmd/treerun/internal/agent cmd/treerun/internal/bench cmd/treerun/internal/check cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/host cmd/treerun/internal/launch cmd/treerun/internal/measure cmd/treerun/internal/nodes cmd/treerun/internal/output cmd/treerun/internal/place cmd/treerun/internal/planner cmd/treerun/internal/program cmd/treerun/internal/selfrun cmd/treerun/internal/wire cuda cuda/nvml cuda/peers internal/numbers rank/iface rank/job rank/keyfile topo topo/gpu topo/network",
	"cmd/treerun/internal/place":       "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/hostlist cmd/treerun/internal/launch rank/iface topo/network transport/ports",
	"cmd/treerun/internal/check":       "cmd/treerun/internal/exitcode cuda cuda/nvml cuda/peers internal/numbers rank/iface topo/gpu",
	"cmd/treerun/internal/cmdline":     "cmd/treerun/internal/exitcode cmd/treerun/internal/gpus rank/job",
	"cmd/treerun/internal/exitcode":    "",
	"cmd/treerun/internal/guard":       "internal/procstate rank/job",
	"cmd/treerun/internal/launch":      "cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/host cmd/treerun/internal/output cmd/treerun/internal/pipe cmd/treerun/internal/remote cmd/treerun/internal/wire internal/numbers rank/job rank/machine topo",
	"cmd/treerun/internal/hostlist":    "internal/numbers internal/safefile rank/job",
	"cmd/treerun/internal/measure":     "cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/launch cmd/treerun/internal/output cmd/treerun/internal/selfrun collective cuda cuda/peers rank topo topo/network",
	"cmd/treerun/internal/nodes":       "cmd/treerun/internal/hostlist internal/netconn internal/numbers rank/job rank/strict",
	"cmd/treerun/internal/output":      "",
	"cmd/treerun/internal/pipe":        "",
	"cmd/treerun/internal/agent":       "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/host cmd/treerun/internal/pipe cmd/treerun/internal/remote cmd/treerun/internal/wire rank/machine",
	"cmd/treerun/internal/host":        "cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/guard cmd/treerun/internal/pipe cmd/treerun/internal/wire internal/procstate rank/job topo",
	"cmd/treerun/internal/remote":      "cmd/treerun/internal/exitcode cmd/treerun/internal/host cmd/treerun/internal/wire",
	"cmd/treerun/internal/wire":        "rank/job rank/strict",
	"cmd/treerun/internal/planner":     "cmd/treerun/internal/bench/suite cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/place collective/plan collective/planner internal/safefile topo topo/draw topo/gpu topo/machines topo/network topo/pack",
	"cmd/treerun/internal/program":     "cmd/treerun/internal/exitcode",
	"cmd/treerun/internal/selfrun":     "cmd/treerun/internal/cmdline cmd/treerun/internal/exitcode cmd/treerun/internal/gpus cmd/treerun/internal/host cmd/treerun/internal/launch cmd/treerun/internal/output",
	"internal/procstate":               "",
	"internal/waits":                   "internal/procstate",
	"internal/testutil/fakegpu":        "internal/testutil/freeport internal/testutil/require topo topo/machines",
	"internal/testutil/freeport":       "",
	"internal/testutil/longer":         "",
	"internal/testutil/nethosts":       "internal/testutil/require",
	"internal/testutil/ptx":            "",
	"internal/testutil/require":        "",
	"examples/hello":                   "collective rank",
	"examples/embedding":               "collective collective/sparse rank",
	"examples/train":                   "collective cuda rank",
	"scripts/fakegpu":                  "internal/testutil/fakegpu",
	"scripts/gpucheck":                 "collective collective/plan collective/sparse cuda cuda/kernels internal/numbers rank",
	"scripts/onehost":                  "scripts/internal/plots scripts/internal/results",
	"scripts/onehost/serial":           "collective rank",
	"scripts/packing":                  "scripts/internal/results topo topo/machines topo/pack",
	"scripts/sparse":                   "internal/testutil/nethosts scripts/internal/jobs scripts/internal/results",
	"scripts/severalhosts":             "internal/testutil/nethosts scripts/internal/jobs scripts/internal/plots scripts/internal/results",
	"scripts/simulated":                "internal/numbers",
	"scripts/pushpulls":                "scripts/internal/results",
	"scripts/slowcard":                 "internal/testutil/nethosts scripts/internal/jobs scripts/internal/results topo",
	"scripts/thirdparty":               "",
	"scripts/internal/jobs":            "internal/testutil/nethosts",
	"scripts/internal/plots":           "scripts/internal/results",
	"scripts/internal/results":         "internal/numbers",
}

// libraries says who may import a module or package of somebody else. A
// library of production code that is not listed fails. "cmd/..." stands for
// the folder and everything below it.
var libraries = map[string]string{
	"github.com/hashicorp/memberlist":   "rank",
	"github.com/NVIDIA/go-nvml":         "cuda/nvml",
	"github.com/vmihailenco/msgpack/v5": "rank/strict rank/job rank collective cmd/treerun/internal/wire cmd/treerun/internal/nodes",
	"github.com/spf13/pflag":            "cmd/... examples/... scripts/gpucheck",
	"golang.org/x/sys":                  "transport/internal/osys internal/netconn internal/procstate internal/safefile cmd/...",
	"golang.org/x/term":                 "cmd/...",
	"gonum.org/v1/gonum":                "examples/train",
	"gonum.org/v1/plot":                 "cmd/treerun/internal/bench/chart scripts/internal/plots scripts/onehost scripts/severalhosts scripts/simulated",
}

// forbidden holds what the pure packages may not touch: anything that does
// I/O, reads a clock or the environment, runs concurrently or is random. Of
// math/rand/v2 they may use generators with a fixed seed.
var (
	pure      = []string{"internal/numbers", "internal/strictjson", "topo", "topo/tree", "topo/pack", "topo/network", "topo/draw", "topo/machines", "topo/gpu", "collective/plan", "collective/planner", "collective/internal/fuse", "collective/sim", "collective/sparse/block", "collective/sparse/omni", "collective/sparse/merge", "collective/sparse/forest", "collective/sparse/pool"}
	seeded    = []string{"New", "NewPCG", "Rand", "PCG"} // of math/rand/v2
	forbidden = []string{"math/rand", "os", "net", "time", "sync", "syscall", "runtime", "context", "log", "crypto/rand", "io/fs", "unsafe"}
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

// usesC are the packages that use cgo.
var usesC = []string{"collective/internal/kernel", "cuda/internal/driver", "cmd/treerun/internal/output"}

func TestUnsafeAndCgo(t *testing.T) {
	for _, s := range sources(t) {
		for _, name := range s.imported() {
			base := strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test")
			if name == "unsafe" && !strings.HasSuffix(base, "_unsafe") {
				t.Errorf("%s: unsafe belongs into a file named *_unsafe.go", s.path)
			}
			if name == "C" && !slices.Contains(usesC, s.pkg) {
				t.Errorf("%s: only %q use cgo", s.path, usesC)
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
