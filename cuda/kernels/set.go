package kernels

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// Set is the kernels of one device. Its methods may be called from any
// goroutine, but for Load and Close.
type Set struct {
	device *cuda.Device

	// MaxBlocks is the largest number of blocks of a launch, by the farthest memory that it touches. Only measurements
	// change it.
	MaxBlocks [Host + 1]int

	copy           *cuda.Kernel    // nil: not loaded, as the others
	search, pick   [9]*cuda.Kernel // by the size of an element
	compact        [9]*cuda.Kernel
	reduce, divide [kernel.Bool]*cuda.Kernel

	modules map[string]*cuda.Module // by file
}

// Load returns a Set with the kernels of some files.
func Load(d *cuda.Device, files ...string) (*Set, error) {
	all := d.Multiprocessors() * residentBlocks
	s := &Set{device: d, MaxBlocks: [...]int{all, PeerBlocks, HostBlocks}, modules: map[string]*cuda.Module{}}
	if err := s.Load(true, files...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Load loads the kernels of some files, unless they are loaded. It may wait for the device to be idle, so no work that
// others wait for may be in its streams then: see package cuda. Where idle reports that its streams are empty,
// processes compile one at a time; a process that waited for its device during its turn would keep others from the work
// that it waits for.
func (s *Set) Load(idle bool, files ...string) (err error) {
	for _, file := range files {
		if s.modules[file] == nil {
			err = cmp.Or(err, s.add(file, idle))
		}
	}
	return err
}

func (s *Set) add(file string, idle bool) error {
	m, err := share(s.device, file, idle)
	if err != nil {
		return fmt.Errorf("kernels: load %s.ptx: %w", file, err)
	}
	s.modules[file] = m
	get := func(at **cuda.Kernel, name string) {
		if err == nil {
			*at, err = m.Kernel(name)
		}
	}
	switch file {
	case Copies:
		get(&s.copy, "treerun_copy")
	case Blocks:
		for size := 1; size <= 8; size *= 2 {
			get(&s.search[size], fmt.Sprint("treerun_search_", 8*size))
			get(&s.pick[size], fmt.Sprint("treerun_pick_", 8*size))
			get(&s.compact[size], fmt.Sprint("treerun_compact_", 8*size))
		}
	}
	for d := range kernel.DeviceDTypes {
		if Of(d) == file {
			get(&s.reduce[d], "treerun_reduce_"+file)
			get(&s.divide[d], "treerun_divide_"+d.String())
		}
	}
	return err
}

// Close unloads the kernels, which no work may use any more.
func (s *Set) Close() error {
	var all error
	for file := range s.modules {
		all = errors.Join(all, leave(s.device, file))
		delete(s.modules, file)
	}
	return all
}
