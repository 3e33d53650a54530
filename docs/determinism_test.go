package docs_test

import (
	"bytes"
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fused matches an instruction of arm64 that rounds x*y+z once, with its file and line.
var fused = regexp.MustCompile(`\((\S+\.go:\d+)\)\tFN?M(ADD|SUB)[DS]\t`)

// TestNothingIsFused: on arm64 the compiler makes one instruction of x*y + z, which rounds
// once and not twice as on amd64, unless the product is converted: float64(x*y) + z. The
// pure packages convert, so that the same input gives the same output on every machine.
func TestNothingIsFused(t *testing.T) {
	args := []string{"build", "-trimpath", "-gcflags=-S"}
	for pkg, r := range table(t) {
		if r.pure {
			args = append(args, "./"+pkg)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("FMULD")) {
		t.Fatalf("%v: %v\n%.2000s", cmd, err, out)
	}
	var places []string
	for _, m := range fused.FindAllSubmatch(out, -1) {
		places = append(places, strings.TrimPrefix(string(m[1]), module+"/"))
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		t.Errorf("%s: x*y + z is one instruction on arm64 and two on amd64: write float64(x*y) + z", place)
	}
}

// exact are the functions of math whose result IEEE 754 defines to the last bit. The
// others differ between processors, as some have them in assembly.
var exact = []string{"Abs", "Ceil", "Floor", "Inf", "IsInf", "IsNaN", "Ldexp", "Max", "Min", "Mod", "NaN", "Nextafter",
	"Round", "Signbit", "Sqrt", "Trunc", "Float64bits", "Float64frombits", "Float32bits", "Float32frombits"}

// TestExactMath: the pure packages use exact functions of math only, but for pictures and
// for measured rates, which differ more.
func TestExactMath(t *testing.T) {
	rooms := table(t)
	for _, s := range sources(t) {
		inexact := slices.Contains([]string{"internal/chart", "topo/draw", "topo/network"}, s.pkg)
		if s.test || !rooms[s.pkg].pure || inexact {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "math" && !slices.Contains(exact, f.Sel.Name) {
					t.Errorf("%s: math.%s may differ between processors", fset.Position(f.Pos()), f.Sel.Name)
				}
			}
			return true
		})
	}
}
