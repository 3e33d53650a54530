package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Module is code that was loaded onto a device.
type Module struct {
	r      *resource
	handle driver.Module
}

// Kernel is a function of a Module, valid as long as that.
type Kernel struct {
	module  *Module
	name    string
	handle  driver.Function
	threads int
}

// Load loads code onto the device: PTX, which the driver compiles for the
// device and keeps in its own cache, or a binary for it. It may wait for the
// device to be idle.
func (d *Device) Load(code []byte) (*Module, error) {
	if len(code) == 0 || bytes.IndexByte(code, 0) >= 0 && !bytes.HasPrefix(code, []byte("\x7fELF")) {
		return nil, fmt.Errorf("cuda: load %d bytes of code on %s: neither PTX nor a binary", len(code), d)
	}
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	h, log, r := c.Load(code)
	if r != driver.Success {
		if log = strings.Join(strings.Fields(log), " "); log != "" {
			log = "(" + log + ")"
		}
		return nil, failed(d, "cuModuleLoadDataEx", log, r)
	}
	m := &Module{handle: h, r: &resource{device: d, context: c, kind: kindModule, call: "cuModuleUnload",
		release: h.Unload}}
	own(m, m.r)
	return m, nil
}

// Device returns the module's device.
func (m *Module) Device() *Device { return m.r.device }

// Kernel returns the kernel with that name, loaded for good: a driver that puts
// loading off does it here, and may wait for the device.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if err := m.r.check(); err != nil {
		return nil, err
	}
	f, r := m.handle.Function(m.r.context, name)
	runtime.KeepAlive(m)
	if r != driver.Success {
		return nil, failed(m.r.device, "cuModuleGetFunction", "of "+name, r)
	}
	// The question makes the driver load the kernel, if it has not.
	threads, r := f.Attribute(m.r.context, driver.MaxThreadsPerBlock)
	runtime.KeepAlive(m)
	if r != driver.Success {
		return nil, failed(m.r.device, "cuFuncGetAttribute", "of "+name, r)
	}
	return &Kernel{module: m, name: name, handle: f, threads: threads}, nil
}

// Close unloads the module; its kernels cannot be used any more. A second
// Close does nothing.
func (m *Module) Close() error {
	err := m.r.close()
	runtime.KeepAlive(m)
	return err
}

// Name returns the kernel's name.
func (k *Kernel) Name() string { return k.name }

// MaxThreads returns how many threads a block of this kernel may have.
func (k *Kernel) MaxThreads() int { return k.threads }

// Occupancy returns how many blocks of that many threads run on one
// multiprocessor at the same time.
func (k *Kernel) Occupancy(block int) (int, error) {
	if err := k.module.r.check(); err != nil {
		return 0, err
	}
	n, r := k.handle.Occupancy(k.module.r.context, block)
	runtime.KeepAlive(k)
	return n, failed(k.module.r.device, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
		fmt.Sprintf("of %s with %d threads", k.name, block), r)
}
