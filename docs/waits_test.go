package docs_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// units are those of package time.
var units = map[string]time.Duration{"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond,
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// quantity is the value of a constant expression: of whole numbers and times.
type quantity struct {
	n      int64
	isTime bool
}

// evaluate returns the value of an expression of the constants of a package, false where it is no such value.
func evaluate(e ast.Expr, of map[string]ast.Expr) (q quantity, ok bool) {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return evaluate(x.X, of)
	case *ast.BasicLit:
		n, err := strconv.ParseInt(strings.ReplaceAll(x.Value, "_", ""), 10, 64)
		return quantity{n: n}, err == nil
	case *ast.Ident:
		named := of[x.Name]
		return evaluate(named, of)
	case *ast.SelectorExpr:
		if pkg, is := x.X.(*ast.Ident); is && pkg.Name == "time" {
			unit, known := units[x.Sel.Name]
			return quantity{int64(unit), true}, known
		}
	case *ast.BinaryExpr:
		a, okA := evaluate(x.X, of)
		b, okB := evaluate(x.Y, of)
		q.isTime = a.isTime || b.isTime
		switch {
		case !okA || !okB:
		case x.Op == token.MUL:
			q.n, ok = a.n*b.n, true
		case x.Op == token.QUO && b.n != 0:
			q.n, ok = a.n/b.n, true
		}
	}
	return q, ok
}

// times returns the times that are constants of packages, as "package.name".
func times(t *testing.T) map[string]time.Duration {
	t.Helper()
	constants := map[string]map[string]ast.Expr{}
	for _, s := range sources(t) {
		if folder, _, _ := strings.Cut(s.pkg, "/"); s.test || folder == "scripts" || folder == "examples" ||
			strings.HasPrefix(s.pkg, "internal/testutil") {
			continue
		}
		if constants[s.pkg] == nil {
			constants[s.pkg] = map[string]ast.Expr{}
		}
		for _, d := range s.Decls {
			g, is := d.(*ast.GenDecl)
			if !is || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						constants[s.pkg][name.Name] = v.Values[i]
					}
				}
			}
		}
	}
	all := map[string]time.Duration{}
	for pkg, of := range constants {
		for name, e := range of {
			if q, ok := evaluate(e, of); ok && q.isTime {
				all[pkg+"."+name] = time.Duration(q.n)
			}
		}
	}
	return all
}

// listedTime is a row of a table of waits.md: "| `package.name` | 100 ms | what | ... |".
type listedTime struct {
	name string
	is   time.Duration
}

var timeRow = regexp.MustCompile("(?m)^\\| `([\\w/.]+)` \\| (\\d+(?:\\.\\d+)?) (ms|s) \\|")

// timesUnder returns the rows of the table below a heading of inside/waits.md.
func timesUnder(t *testing.T, heading string) (rows []listedTime) {
	t.Helper()
	_, text, found := strings.Cut(read(t, "inside/waits.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("inside/waits.md has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range timeRow.FindAllStringSubmatch(text, -1) {
		d, err := time.ParseDuration(m[2] + m[3])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, listedTime{m[1], d})
	}
	return rows
}

// TestWaits: inside/waits.md lists every wait of the library that ends a call or a Close, and every grace of the
// launcher that ends a rank, with the values of the code and in their order. No wait equals a grace: the rank would be
// ended at the moment in which it continues. After a failure waits take at most half of the least grace.
func TestWaits(t *testing.T) {
	actual, listed := times(t), map[string]bool{}
	table := func(heading string) []listedTime {
		rows := timesUnder(t, heading)
		if len(rows) < 3 {
			t.Errorf("%d rows below %q", len(rows), heading)
		}
		if !slices.IsSortedFunc(rows, func(a, b listedTime) int { return int(a.is - b.is) }) {
			t.Errorf("the rows below %q are not in the order of their values", heading)
		}
		for _, row := range rows {
			listed[row.name] = true
			if is, known := actual[row.name]; !known || is != row.is {
				t.Errorf("%s is %v in inside/waits.md, and %v in the code", row.name, row.is, is)
			}
		}
		return rows
	}
	failing, others := table("Waits after a failure"), table("Other waits of the library")
	graces := table("Graces of the launcher")
	for _, w := range slices.Concat(failing, others) {
		for _, g := range graces {
			if w.is == g.is {
				t.Errorf("%s and %s are both %v", w.name, g.name, w.is)
			}
		}
	}
	for _, w := range failing {
		if w.is > graces[0].is/2 {
			t.Errorf("%s is %v, more than half of %s, %v", w.name, w.is, graces[0].name, graces[0].is)
		}
	}
	_, rest, _ := strings.Cut(read(t, "inside/waits.md"), "\n## Other times\n")
	for _, m := range regexp.MustCompile("`([\\w/.]+)`").FindAllStringSubmatch(rest, -1) {
		if _, known := actual[m[1]]; !known {
			t.Errorf("inside/waits.md: there is no time %s", m[1])
		}
		listed[m[1]] = true
	}
	for name, is := range actual {
		if is >= 50*time.Millisecond && !listed[name] {
			t.Errorf("%s, %v, is not in inside/waits.md", name, is)
		}
	}
}
