// Package docs_test holds the rules of the repository that a program can
// check: the permitted imports, where unsafe, cgo and each library may be used,
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
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/treerun/treerun"

// room is a row of the table of packages in packages.md.
type room struct {
	imports []string
	pure    bool // its description ends in "Pure"
}

// table reads the rows "| `package` | description | `import`, `import` |" of
// packages.md, the only list of the packages, with the packages of this module that
// each may import, and of the pure ones.
func table(t *testing.T) map[string]room {
	t.Helper()
	text, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]room{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		pkg := strings.Trim(cells[1], " `")
		if _, twice := rooms[pkg]; twice {
			t.Errorf("packages.md: package %s is listed twice", pkg)
		}
		rooms[pkg] = room{
			imports: strings.Fields(strings.NewReplacer("`", " ", ",", " ").Replace(cells[3])),
			pure:    strings.HasSuffix(strings.TrimSpace(cells[2]), "Pure"),
		}
	}
	return rooms
}

// libraries lists the packages that may import a third-party module or package. A
// library of production code that is not listed fails. "cmd/..." stands for
// the folder and everything below it.
var libraries = map[string]string{
	"github.com/hashicorp/memberlist":   "rank",
	"github.com/hashicorp/yamux":        "cmd/treerun/internal/wire",
	"github.com/vmihailenco/msgpack/v5": "internal/agree internal/strict collective/internal/setup collective",
	"github.com/spf13/pflag":            "cmd/... examples/...",
	"golang.org/x/sys": "transport/internal/osys internal/netconn internal/job internal/iface internal/safefile " +
		"internal/cpu cmd/...",
	"golang.org/x/term":                   "cmd/...",
	"gonum.org/v1/gonum":                  "examples/train examples/kmeans",
	"github.com/gomlx/gomlx":              "examples/gomlx",         // a module of its own
	"go.opentelemetry.io/otel":            "examples/opentelemetry", // likewise
	"google.golang.org/protobuf":          "cmd/treerun/internal/recording",
	"github.com/prometheus/client_golang": "cmd/treerun/internal/metrics",
	"golang.org/x/net":                    "cmd/treerun/internal/metrics",

	// Packages of the standard library that mark a mechanism with a single implementation.
	"crypto/hmac": "internal/netconn transport/shm", // proofs of connections
	"crypto/tls":  "internal/netconn transport/tcp", // and the packages that read behind it
	// A library does not handle signals.
	"os/signal": "cmd/treerun/internal/... internal/testutil/fakegpu scripts/chaos scripts/report examples/shutdown",
}

// forbidden lists the packages that pure ones may not import: anything that does
// I/O, reads a clock or the environment, runs concurrently or is random. Of
// math/rand/v2 they may use generators with a fixed seed.
var (
	seeded    = []string{"New", "NewPCG", "Rand", "PCG"} // of math/rand/v2
	forbidden = []string{"math/rand", "os", "net", "time", "sync", "syscall", "runtime", "context", "log", "crypto/rand",
		"io/fs", "unsafe"}
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

// sources returns every Go file of the repository except test data.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 {
		t.Fatalf("found %d Go files: the test looks in the wrong place", len(all))
	}
	return all
}

var parsed = sync.OnceValues(func() (all []source, err error) {
	root := os.DirFS("..")
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
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
		all = append(all, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file,
			bytes.Count(text, []byte("\n"))})
		return nil
	})
	return all, err
})

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

// within reports whether pkg is p, or below it when p ends in "/...".
func within(pkg, p string) bool {
	above, tree := strings.CutSuffix(p, "/...")
	return pkg == p || tree && (pkg == above || strings.HasPrefix(pkg, above+"/"))
}

// TestImportsOfOurs: an import that is not in the table fails, and so does an unused one in
// the table. Test files are exempt.
func TestImportsOfOurs(t *testing.T) {
	rooms := table(t)
	used := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		used[s.pkg] = append(used[s.pkg], "")
		for _, name := range s.imported() {
			if ours, ok := strings.CutPrefix(name, module+"/"); ok {
				used[s.pkg] = append(used[s.pkg], ours)
				if !slices.Contains(rooms[s.pkg].imports, ours) {
					t.Errorf("%s: %s may not import %s: see the table in packages.md", s.path, s.pkg, ours)
				}
			}
		}
	}
	for pkg, r := range rooms {
		if used[pkg] == nil {
			t.Errorf("packages.md: unknown package %s", pkg)
		}
		for _, name := range r.imports {
			if !slices.Contains(used[pkg], name) {
				t.Errorf("packages.md lets %s import %s, but it does not", pkg, name)
			}
		}
	}
	for pkg := range used {
		if _, ok := rooms[pkg]; !ok {
			t.Errorf("packages.md: package %s is not in the table", pkg)
		}
	}
}

// floors are the top-level folders, each on the floor above those that it may import.
var floors = map[string]int{"internal": 0, "transport": 1, "topo": 2, "cuda": 3, "collective": 4, "rank": 4, "cmd": 5,
	"examples": 5, "scripts": 5}

// testSupport are the packages that help tests.
const testSupport = "internal/testutil/..."

// TestOneWay: imports between top-level folders go down. Test support may import the packages that it supports, and
// only tests and scripts import it.
func TestOneWay(t *testing.T) {
	for _, found := range upwards(t) {
		t.Error(found)
	}
}

// upwards returns what is wrong with imports between top-level folders.
func upwards(t *testing.T) (all []string) {
	for _, s := range sources(t) {
		if s.test || within(s.pkg, testSupport) {
			continue
		}
		from, _, _ := strings.Cut(s.pkg, "/")
		for _, name := range s.imported() {
			ours, is := strings.CutPrefix(name, module+"/")
			to, _, _ := strings.Cut(ours, "/")
			above, known := floors[from]
			below, knows := floors[to]
			switch {
			case !is || from == to && !within(ours, testSupport) || from == "scripts":
			case within(ours, testSupport) && from != "scripts":
				all = append(all, fmt.Sprintf("%s imports %s, which is for tests", s.path, ours))
			case !known || !knows || above <= below:
				all = append(all, fmt.Sprintf("%s: %s is not on a floor above %s", s.path, from, to))
			}
		}
	}
	return all
}

func TestLibraries(t *testing.T) {
	for _, s := range sources(t) {
		for _, name := range s.imported() {
			first, _, _ := strings.Cut(name, "/")
			_, one := libraries[name]
			if s.test || name == module || strings.HasPrefix(name, module+"/") || !strings.Contains(first, ".") && !one {
				continue
			}
			allowed := slices.ContainsFunc(slices.Collect(maps.Keys(libraries)), func(lib string) bool {
				return within(name, lib+"/...") && slices.ContainsFunc(strings.Fields(libraries[lib]),
					func(p string) bool { return within(s.pkg, p) })
			})
			if !allowed {
				t.Errorf("%s: %s may not import %s", s.path, s.pkg, name)
			}
		}
	}
}

// printing are the files of the library that print to standard error, and why: others return errors or use a logger.
var printing = map[string]string{
	"collective/internal/setup/config.go": "Note, without a logger of the caller's",
	"internal/waits/waits.go":             "reports of long waits, without one",
	"rank/launcher.go":                    "the process ends here",
	"rank/profile.go":                     "a profile that --pprof requests is missing",
	"cuda/peers/peers.go":                 "no World, so no logger: a cache that cannot be written",
	"cuda/peers/cache.go":                 "and one that cannot be read",
}

// TestStandardError: a library does not print without the knowledge of its program.
func TestStandardError(t *testing.T) {
	for _, s := range sources(t) {
		first, _, _ := strings.Cut(s.pkg, "/")
		library := slices.Contains([]string{"collective", "cuda", "internal", "rank", "topo", "transport"}, first)
		if s.test || !library || within(s.pkg, "internal/testutil/...") || printing[s.path] != "" {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				x, ok := sel.X.(*ast.Ident)
				if ok && x.Name == "os" && (sel.Sel.Name == "Stderr" || sel.Sel.Name == "Stdout") {
					t.Errorf("%s prints to os.%s", s.path, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// usesC are the packages that use cgo.
var usesC = []string{"internal/kernel", "cuda/internal/driver", "cuda/nvml", "cmd/treerun"}

func TestUnsafeAndCgo(t *testing.T) {
	for _, s := range sources(t) {
		for _, name := range s.imported() {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test"), "_linux")
			if name == "unsafe" && !strings.HasSuffix(base, "_unsafe") {
				t.Errorf("%s: unsafe belongs into a file named *_unsafe.go, or *_unsafe_linux.go", s.path)
			}
			if name == "C" && !slices.Contains(usesC, s.pkg) {
				t.Errorf("%s: only %q use cgo", s.path, usesC)
			}
		}
	}
}

// TestFootprint: a program that uses ranks and collectives carries no more of other modules than messages and the
// list of members need: no bindings of the driver, no drawing, no flags.
func TestFootprint(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "../examples/hello").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	want := strings.Fields(`github.com/google/btree github.com/hashicorp/errwrap github.com/hashicorp/go-immutable-radix
		github.com/hashicorp/go-metrics github.com/hashicorp/go-msgpack/v2 github.com/hashicorp/go-multierror
		github.com/hashicorp/go-sockaddr github.com/hashicorp/golang-lru github.com/hashicorp/memberlist
		github.com/miekg/dns github.com/sean-/seed github.com/treerun/treerun github.com/vmihailenco/msgpack/v5
		github.com/vmihailenco/tagparser/v2 golang.org/x/net golang.org/x/sys`)
	if !slices.Equal(modules, want) {
		t.Errorf("examples/hello carries\n%q, want\n%q", modules, want)
	}
}

// forUsers are the packages that programs of users may import. All others are below an internal
// folder, or state in their first line that they are not for users.
const forUsers = "rank collective collective/plan collective/sparse cuda cuda/nvml topo"

func TestPackagesForUsers(t *testing.T) {
	own := regexp.MustCompile(`(^|/)internal/|^(cmd|docs|examples|scripts)/`)
	checked := 0
	for _, s := range sources(t) {
		if s.test || s.Doc == nil || own.MatchString(s.pkg+"/") || !strings.HasPrefix(s.Doc.Text(), "Package ") {
			continue
		}
		checked++
		first, _, _ := strings.Cut(s.Doc.Text(), "\n")
		if marked := strings.Contains(first, "is not for users"); marked == slices.Contains(strings.Fields(forUsers), s.pkg) {
			t.Errorf("%s: the first line is %q, and users may import %s", s.path, first, forUsers)
		}
	}
	if checked < 10 {
		t.Fatalf("found %d packages: the test looks in the wrong place", checked)
	}
}

func TestPurePackages(t *testing.T) {
	rooms := table(t)
	for _, s := range sources(t) {
		if s.test || !rooms[s.pkg].pure {
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
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "rand" && ast.IsExported(n.Sel.Name) &&
					!slices.Contains(seeded, n.Sel.Name) {
					t.Errorf("%s: %s is pure: no rand.%s, only generators with a fixed seed", fset.Position(n.Pos()), s.pkg,
						n.Sel.Name)
				}
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s: %s is pure: no goroutines, no channels", fset.Position(n.Pos()), s.pkg)
			}
			return true
		})
	}
}
