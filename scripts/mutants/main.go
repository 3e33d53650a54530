// Mutants finds changes of the code that no test rejects. It draws N places at random over all packages, changes one at
// a time (a condition, an operator, a statement, a returned error, a number), and runs the tests of the package and
// then of packages that import it. A mutant that no test rejects is printed; a reader decides whether it changes
// behavior. A mutant whose test fails without it as well does not count. No file is changed: the compiler
// gets the mutant as an overlay. It is run from the root of the repository:
//
//	go run ./scripts/mutants -n 200 -seed 1
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	number = flag.Int("n", 20, "number of mutants")
	seed   = flag.Uint64("seed", 1, "seed of the draw")
	only   = flag.String("only", "", "draw in packages whose path contains this")
	limit  = flag.Duration("limit", 4*time.Minute, "time after which the tests of a package hang: the mutant is caught")
)

// maxImporters is the number of packages that import the mutated one whose tests run.
const maxImporters = 3

func main() {
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	m := load()
	all := m.places(*only)
	if len(all) == 0 {
		log.Fatalf("no package has places whose path contains %q", *only)
	}
	rng := rand.New(rand.NewPCG(*seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%d places; seed %d\n", len(all), *seed)
	tried, survived := m.tryAll(all)
	fmt.Printf("%d of %d mutants were caught, %d survived\n", tried-survived, tried, survived)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// tryAll tries places until the wanted number of them has compiled.
func (m *module) tryAll(all []place) (tried, survived int) {
	for _, p := range all {
		if tried == *number {
			break
		}
		verdict, text := m.try(p)
		switch verdict {
		case invalid:
			continue
		case survivor:
			survived++
			fmt.Println("SURVIVED", text)
		default:
			fmt.Println("caught  ", text)
		}
		tried++
	}
	return tried, survived
}

// verdict is the outcome of a mutant.
type verdict int

const (
	invalid  verdict = iota // it does not compile, or a test fails also without it
	caught                  // a test fails, or hangs
	survivor                // all tests pass
)

// try runs the tests of a mutant, nearest first, until one fails.
func (m *module) try(p place) (verdict, string) {
	source, err := os.ReadFile(p.File)
	if err != nil {
		return invalid, err.Error()
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return invalid, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, p, source)
	if err != nil {
		return invalid, err.Error()
	}
	text := p.describe(source)
	pkg := m.path + "/" + filepath.ToSlash(filepath.Dir(p.File))
	if build := exec.Command("go", "build", "-overlay", overlay, pkg); build.Run() != nil {
		return invalid, text
	}
	for _, tests := range m.testsFor(pkg) {
		by, ok := m.pass(tests, "-overlay", overlay)
		if ok {
			continue
		}
		text = strings.TrimSpace(text + ", by " + strings.TrimPrefix(tests, m.path+"/") + " " + by)
		if _, ok := m.pass(tests, "-run", "^"+by); !ok {
			fmt.Println("not counted: the test fails without the mutant as well:", text)
			return invalid, text
		}
		return caught, text
	}
	return survivor, text
}

// failed matches the line of a test that has failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// pass reports whether the tests of a package pass with the given arguments of go test, and else the first that fails.
func (m *module) pass(pkg string, args ...string) (by string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), *limit+time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-vet=off", "-count=1", "-failfast",
		"-timeout", limit.String()}, args, []string{pkg})...)
	test.WaitDelay = time.Second
	out, err := test.Output()
	if name := failed.FindSubmatch(out); name != nil {
		by = string(name[1])
	}
	return by, err == nil
}

// writeOverlay writes the mutated file, and the file that gives it to the compiler.
func writeOverlay(dir string, p place, source []byte) (string, error) {
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, p.apply(source), 0o600); err != nil {
		return "", err
	}
	name, err := filepath.Abs(p.File)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {name: mutated}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// module is the packages of this repository.
type module struct {
	path     string
	packages []pkg // in the order of their paths
}

// pkg is one package of it.
type pkg struct {
	ImportPath                  string
	Files, Imports, TestImports []string
	tested                      bool
}

// fields make go list print a package in one line.
const fields = `{{.ImportPath}}	{{join .GoFiles " "}} {{join .CgoFiles " "}}	{{join .Imports " "}}	` +
	`{{join .TestImports " "}} {{join .XTestImports " "}}	{{join .TestGoFiles " "}}{{join .XTestGoFiles " "}}`

func load() *module {
	out, err := exec.Command("go", "list", "-f", fields, "./...").Output()
	check(err)
	path, err := exec.Command("go", "list", "-m").Output()
	check(err)
	m := &module{path: strings.TrimSpace(string(path))}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		p := pkg{f[0], strings.Fields(f[1]), strings.Fields(f[2]), strings.Fields(f[3]), f[4] != ""}
		m.packages = append(m.packages, p)
	}
	return m
}

// testsFor returns the packages whose tests may catch a mutant of a package: its own, and packages that import it.
func (m *module) testsFor(name string) []string {
	var own, importers []string
	for _, p := range m.packages {
		switch {
		case !p.tested:
		case p.ImportPath == name:
			own = []string{name}
		case slices.Contains(p.Imports, name) || slices.Contains(p.TestImports, name):
			importers = append(importers, p.ImportPath)
		}
	}
	return append(own, importers[:min(len(importers), maxImporters)]...)
}

// places returns all places of the packages, other than examples, scripts and test support.
func (m *module) places(part string) (all []place) {
	for _, p := range m.packages {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, m.path), "/")
		if slices.Contains([]string{"examples", "scripts", "docs"}, strings.Split(rel, "/")[0]) ||
			strings.HasPrefix(rel, "internal/testutil") || !strings.Contains(rel, part) {
			continue
		}
		for _, name := range p.Files {
			file := filepath.Join(rel, name)
			source, err := os.ReadFile(file)
			check(err)
			found, err := places(file, source)
			check(err)
			all = append(all, found...)
		}
	}
	return all
}
