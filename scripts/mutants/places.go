package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// place is one change that a mutant makes: the bytes of a file from From to To are replaced by Text.
type place struct {
	File     string
	Line     int
	Kind     string
	From, To int
	Text     string
}

// apply returns the source of a file with the change.
func (p place) apply(source []byte) []byte {
	return fmt.Appendf(nil, "%s%s%s", source[:p.From], p.Text, source[p.To:])
}

// describe prints the place, what stood there and what stands there now.
func (p place) describe(source []byte) string {
	before, after := string(source[p.From:p.To]), p.Text
	if after == "" {
		after = "nothing"
	}
	return fmt.Sprintf("%s:%d: %s: %.80q -> %.80q", p.File, p.Line, p.Kind, before, after)
}

// swaps are the operators that replace others.
var swaps = map[token.Token]string{
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=",
	token.GEQ: ">", token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&", token.AND: "|", token.OR: "&",
	token.SHL: ">>", token.SHR: "<<",
}

// places returns all changes of a file: a condition that is negated, another operator, a statement less, an error that
// is returned as nil, and a number that is one higher.
func places(name string, source []byte) ([]place, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := finder{name: name, source: source, fset: fset}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.errors = []bool{returnsError(fn.Type)}
			f.walk(fn.Body)
		}
	}
	return f.found, nil
}

// finder collects the places of one file.
type finder struct {
	name   string
	source []byte
	fset   *token.FileSet
	errors []bool // whether the functions around the current node return an error, the innermost last
	found  []place
}

func (f *finder) walk(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.errors = append(f.errors, returnsError(n.Type))
			f.walk(n.Body)
			f.errors = f.errors[:len(f.errors)-1]
			return false
		case *ast.IfStmt:
			f.negate(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				f.negate(n.Cond)
			}
		case *ast.BinaryExpr:
			if text, ok := swaps[n.Op]; ok {
				f.add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), text)
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
				f.add("number", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
			f.add("statement", n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				f.add("statement", n.Pos(), n.End(), "")
			}
		case *ast.ReturnStmt:
			f.dropError(n)
		}
		return true
	})
}

func (f *finder) negate(cond ast.Expr) {
	from, to := f.fset.Position(cond.Pos()).Offset, f.fset.Position(cond.End()).Offset
	f.add("condition", cond.Pos(), cond.End(), "!("+string(f.source[from:to])+")")
}

// dropError replaces the error of a return statement by nil.
func (f *finder) dropError(n *ast.ReturnStmt) {
	if len(n.Results) == 0 || !f.errors[len(f.errors)-1] {
		return
	}
	last := n.Results[len(n.Results)-1]
	if id, ok := last.(*ast.Ident); ok && id.Name == "nil" {
		return
	}
	f.add("error", last.Pos(), last.End(), "nil")
}

func (f *finder) add(kind string, from, to token.Pos, text string) {
	at := f.fset.Position(from)
	f.found = append(f.found, place{f.name, at.Line, kind, at.Offset, f.fset.Position(to).Offset, text})
}

// returnsError reports whether the last result of a function is an error.
func returnsError(t *ast.FuncType) bool {
	if t.Results == nil || len(t.Results.List) == 0 {
		return false
	}
	id, ok := t.Results.List[len(t.Results.List)-1].Type.(*ast.Ident)
	return ok && id.Name == "error"
}
