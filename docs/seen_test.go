package docs_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// imported imports packages of this module as the compiler has built them.
var imported = sync.OnceValues(func() (types.Importer, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for pkg := range strings.FieldsSeq(forUsers) {
		args = append(args, module+"/"+pkg)
	}
	command := exec.Command("go", args...)
	command.Stderr = os.Stderr
	list, err := command.Output()
	exports := map[string]string{}
	for line := range strings.Lines(string(list)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(exports[name])
	}), err
})

// inherited lists what users of a package see of its types through aliases and embedded types: fields, methods, and the
// underlying type of an alias.
func inherited(t *testing.T, pkg string) string {
	t.Helper()
	all, err := imported()
	if err != nil {
		t.Fatal(err)
	}
	p, err := all.Import(module + "/" + pkg)
	if err != nil {
		t.Fatal(err)
	}
	qualifier := func(of *types.Package) string {
		switch {
		case of == p:
			return ""
		case strings.Contains(of.Path(), "/internal/"):
			return "internal"
		}
		return of.Name()
	}
	var lines []string
	for _, name := range p.Scope().Names() {
		object, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || !object.Exported() {
			continue
		}
		typ := types.Unalias(object.Type())
		if underlying := typ.Underlying(); object.IsAlias() && !types.IsInterface(typ) {
			if _, ok := underlying.(*types.Struct); !ok {
				lines = append(lines, fmt.Sprintf("// %s %s\n", name, types.TypeString(underlying, qualifier)))
			}
		}
		for _, member := range members(typ) {
			found, index, _ := types.LookupFieldOrMethod(typ, true, p, member.Name())
			if found == member && member.Exported() && (object.IsAlias() || len(index) > 1) {
				text := types.TypeString(member.Type(), qualifier)
				lines = append(lines, fmt.Sprintf("// %s.%s %s\n", name, member.Name(), text))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// members returns the fields and methods of a type and of those embedded in it.
func members(typ types.Type) (all []types.Object) {
	if pointer, ok := typ.(*types.Pointer); ok {
		typ = pointer.Elem()
	}
	if named, ok := types.Unalias(typ).(*types.Named); ok {
		for m := range named.Methods() {
			all = append(all, m)
		}
	}
	switch underlying := typ.Underlying().(type) {
	case *types.Interface:
		for m := range underlying.Methods() {
			all = append(all, m)
		}
	case *types.Struct:
		for f := range underlying.Fields() {
			all = append(all, f)
			if f.Embedded() {
				all = append(all, members(f.Type())...)
			}
		}
	}
	return all
}
