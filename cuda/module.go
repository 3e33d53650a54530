package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Module is code that was loaded onto a device. Its kernels cannot be used any more when
// it is closed.
type Module struct {
	*resource
	handle driver.Module
}

// Kernel is a function of a Module, valid as long as that.
type Kernel struct {
	module *Module
	name   string
	handle driver.Function
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
	m := &Module{handle: h}
	m.resource = own(m, &resource{device: d, context: c, kind: kindModule, release: h.Unload})
	return m, nil
}

// Kernel returns the kernel with that name, loaded for good: a driver that puts
// loading off does it here, and may wait for the device.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	f, r := m.handle.Function(m.context, name)
	runtime.KeepAlive(m)
	if r != driver.Success {
		return nil, failed(m.device, "cuModuleGetFunction", "of "+name, r)
	}
	r = f.Load(m.context)
	runtime.KeepAlive(m)
	if r != driver.Success {
		return nil, failed(m.device, "cuFuncGetAttribute", "of "+name, r)
	}
	return &Kernel{module: m, name: name, handle: f}, nil
}
