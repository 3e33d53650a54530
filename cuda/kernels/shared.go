package kernels

import (
	"embed"
	"errors"
	"sync"

	"github.com/treerun/treerun/cuda"
)

//go:embed *.ptx
var ptx embed.FS

// shared is a module of all Sets of a device in this process: to load it once more could wait for the device, and
// so for calls of other communicators.
type shared struct {
	sets   int        // guarded by allShared
	mu     sync.Mutex // held while it is loaded
	module *cuda.Module
}

type place struct {
	device *cuda.Device
	file   string
}

var allShared struct {
	sync.Mutex
	modules map[place]*shared
}

// share returns the module of a file, which is loaded if it is not.
func share(d *cuda.Device, file string, idle bool) (*cuda.Module, error) {
	at := place{d, file}
	allShared.Lock()
	m := allShared.modules[at]
	if m == nil {
		if m = new(shared); allShared.modules == nil {
			allShared.modules = map[place]*shared{}
		}
		allShared.modules[at] = m
	}
	m.sets++
	allShared.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.module != nil {
		return m.module, nil
	}
	load := func() error {
		code, err := ptx.ReadFile(file + ".ptx")
		if err == nil {
			m.module, err = d.Load(code)
		}
		return err
	}
	var err error
	if idle {
		err = inTurn(load)
	} else {
		err = load()
	}
	if err != nil {
		return nil, errors.Join(err, leave(d, file))
	}
	return m.module, nil
}

// leave ends a Set's use of a module, which is unloaded with the last.
func leave(d *cuda.Device, file string) error {
	at := place{d, file}
	allShared.Lock()
	m := allShared.modules[at]
	if m.sets--; m.sets > 0 {
		allShared.Unlock()
		return nil
	}
	delete(allShared.modules, at)
	allShared.Unlock()
	if m.module == nil {
		return nil
	}
	return m.module.Close()
}
