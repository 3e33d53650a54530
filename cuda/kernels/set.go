package kernels

import (
	"embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/cuda"
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

	mu      sync.Mutex
	modules map[string]*cuda.Module // by file
	types   [dtypeEnd]atomic.Pointer[typed]
}

// typed is the kernels of one element type.
type typed struct {
	reduce           [opEnd]*cuda.Kernel
	multiply, divide *cuda.Kernel
}

// Load loads the kernels that every element type needs. Those of one type
// follow with Prepare.
func Load(d *cuda.Device) (*Set, error) {
	s := &Set{device: d, modules: map[string]*cuda.Module{}}
	move := s.from("move")
	s.copy = move.get("treerun_copy")
	for size := 1; size <= 8; size *= 2 {
		s.search[size] = move.get(fmt.Sprintf("treerun_search_%d", 8*size))
		s.pick[size] = move.get(fmt.Sprintf("treerun_pick_%d", 8*size))
	}
	if move.err != nil {
		return nil, errors.Join(move.err, s.Close())
	}
	return s, nil
}

// Device returns the device of the kernels.
func (s *Set) Device() *cuda.Device { return s.device }

// Prepare loads the kernels of the given types. The first use of a type does
// that, too; but loading may wait for the device to be idle, so what others wait
// for must not be in its streams then: see package cuda.
func (s *Set) Prepare(types ...DType) error {
	for _, d := range types {
		if !d.Valid() {
			return fmt.Errorf("kernels: prepare %v: %w", d, ErrArgument)
		}
		if _, err := s.of(d); err != nil {
			return err
		}
	}
	return nil
}

// of returns the kernels of a type.
func (s *Set) of(d DType) (*typed, error) {
	if t := s.types[d].Load(); t != nil {
		return t, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.types[d].Load(); t != nil {
		return t, nil
	}
	t := &typed{}
	file := s.from(dtypes[d].file)
	for op := Sum; op <= Max; op++ {
		t.reduce[op] = file.get(kernelName(ops[op], d))
	}
	t.reduce[Avg] = t.reduce[Sum]
	t.multiply, t.divide = file.get(kernelName("multiply", d)), file.get(kernelName("divide", d))
	if file.err != nil {
		return nil, file.err
	}
	s.types[d].Store(t)
	return t, nil
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
