package kernels

import (
	"cmp"
	"embed"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

//go:embed *.ptx
var ptx embed.FS

// Set is the kernels of one device. Its methods may be called from any
// goroutine, but for Close.
type Set struct {
	device *cuda.Device

	copy   *cuda.Kernel
	search [9]*cuda.Kernel // by the size of an element
	pick   [9]*cuda.Kernel
	types  [kernel.Float64 + 1]*typed // nil: not loaded

	modules map[string]*cuda.Module // by file
}

// typed is the kernels of one element type.
type typed struct {
	reduce           [kernel.Avg + 1]*cuda.Kernel
	multiply, divide *cuda.Kernel
}

// Load loads the kernels that copy and search, and those that compute with elements of
// the given types. It may wait for the device to be idle, so what others wait for must
// not be in its streams then: see package cuda.
func Load(d *cuda.Device, types ...kernel.DType) (*Set, error) {
	s := &Set{device: d, modules: map[string]*cuda.Module{}}
	move := s.from("move")
	s.copy = move.get("treerun_copy")
	for size := 1; size <= 8; size *= 2 {
		s.search[size] = move.get(fmt.Sprintf("treerun_search_%d", 8*size))
		s.pick[size] = move.get(fmt.Sprintf("treerun_pick_%d", 8*size))
	}
	err := move.err
	for _, d := range types {
		t := &typed{}
		file := s.from(fileOf(d))
		for op := kernel.Sum; op <= kernel.Max; op++ {
			t.reduce[op] = file.get(kernelName(op.String(), d))
		}
		t.reduce[kernel.Avg] = t.reduce[kernel.Sum] // to be finished by Divide
		t.multiply, t.divide = file.get(kernelName("multiply", d)), file.get(kernelName("divide", d))
		s.types[d], err = t, cmp.Or(err, file.err)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// A getter gets kernels of one module, until the first error.
type getter struct {
	module *cuda.Module
	err    error
}

func (g *getter) get(name string) (k *cuda.Kernel) {
	if g.err == nil {
		k, g.err = g.module.Kernel(name)
	}
	return k
}

// from returns the getter of a file, and loads that first.
func (s *Set) from(file string) *getter {
	m := s.modules[file]
	if m != nil {
		return &getter{module: m}
	}
	code, err := ptx.ReadFile(file + ".ptx")
	if err != nil {
		return &getter{err: fmt.Errorf("kernels: %w", err)}
	}
	if m, err = s.device.Load(code); err != nil {
		return &getter{err: fmt.Errorf("kernels: load %s.ptx: %w", file, err)}
	}
	s.modules[file] = m
	return &getter{module: m}
}

// Close unloads the kernels, which no work may use any more.
func (s *Set) Close() error {
	var all error
	for file, m := range s.modules {
		all = errors.Join(all, m.Close())
		delete(s.modules, file)
	}
	return all
}
