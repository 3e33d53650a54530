package cuda

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Device is one GPU. There is one value per GPU and process. Its primary
// context, which takes some hundred megabytes of device memory, is made when it
// is first needed.
type Device struct {
	index      int
	handle     driver.Device
	name       string
	uuid       string
	pci        string
	memory     int64
	processors int

	users atomic.Int64 // resources that are open
	hangs atomic.Bool  // Abandon was called

	waiting atomic.Int32 // queues that NewWaitingStreams has given away

	mu      sync.Mutex
	primary driver.Context

	// Held while the driver opens or closes other processes' memory, which may wait for the device: no other call waits
	// for it.
	opening  sync.Mutex
	mappings map[block]*mapping
}

// devices makes the list of devices, once.
var devices = sync.OnceValues(func() ([]*Device, error) {
	if err := Open(); err != nil {
		return nil, err
	}
	n, r := driver.Count()
	if err := failed(nil, "cuDeviceGetCount", "", r); err != nil {
		return nil, err
	}
	list := make([]*Device, n)
	for i := range list {
		var err error
		if list[i], err = newDevice(i); err != nil {
			return nil, err
		}
	}
	return list, nil
})

// Devices returns the GPUs that this process sees, in the driver's order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER
// apply. The slice is the caller's, the devices are the same in every call.
func Devices() ([]*Device, error) {
	list, err := devices()
	return slices.Clone(list), err
}

// DeviceByUUID returns the device with that UUID, in the form of Device.UUID.
func DeviceByUUID(uuid string) (*Device, error) {
	list, err := Devices()
	if err != nil {
		return nil, err
	}
	var seen []string
	for _, d := range list {
		if strings.EqualFold(d.uuid, uuid) {
			return d, nil
		}
		seen = append(seen, d.uuid)
	}
	return nil, fmt.Errorf("cuda: no device has the UUID %q; this process sees %s; does CUDA_VISIBLE_DEVICES hide it?",
		uuid, strings.Join(seen, " "))
}

func newDevice(index int) (*Device, error) {
	v, call, r := driver.Describe(index)
	d := &Device{index: index, handle: v.Device, name: v.Name, uuid: uuidText(v.UUID), pci: strings.ToLower(v.PCI),
		memory: v.Memory, processors: v.Multiprocessors}
	return d, failed(d, call, "", r)
}

// uuidText writes a UUID as nvidia-smi does: GPU-8-4-4-4-12 hexadecimal digits.
func uuidText(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return "GPU-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Index returns the device's number in Devices, which may be another one in other processes.
func (d *Device) Index() int { return d.index }

// Name returns the product's name.
func (d *Device) Name() string { return d.name }

// UUID returns the identifier that is unique to this GPU, as in "GPU-5e6f7a8b-0000-1111-2222-333344445555".
func (d *Device) UUID() string { return d.uuid }

// PCI returns the PCI address as the system writes it, "0000:b3:00.0".
func (d *Device) PCI() string { return d.pci }

// TotalMemory returns the size of the device's memory in bytes.
func (d *Device) TotalMemory() int64 { return d.memory }

// Multiprocessors returns the number of multiprocessors.
func (d *Device) Multiprocessors() int { return d.processors }

// String returns "device 3 (GPU-…)", for messages.
func (d *Device) String() string { return fmt.Sprintf("device %d (%s)", d.index, d.uuid) }

// context returns the primary context, which it makes first where necessary.
func (d *Device) context() (driver.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary != 0 {
		return d.primary, nil
	}
	c, r := d.handle.Retain()
	if r != driver.Success {
		return 0, failed(d, "cuDevicePrimaryCtxRetain", "", r)
	}
	d.primary = c
	live.contexts.Add(1)
	return c, nil
}

// Close gives up the device's context. It fails, and does nothing, while anything made on the device is open. A later
// call makes a new context. No other goroutine may use the device meanwhile.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary == 0 {
		return nil
	}
	if n := d.users.Load(); n != 0 {
		return fmt.Errorf("cuda: %s cannot be closed: %d streams, events, modules or ranges of memory are open", d, n)
	}
	d.primary = 0
	live.contexts.Add(-1)
	return failed(d, "cuDevicePrimaryCtxRelease", "", d.handle.Release())
}

// Abandon marks the device as one on which work never ends. The driver would wait for that work when anything of the
// device is given back: from now on Close and Free of values that were made on it leave that to the end of the process.
// Stats continues to count them.
func (d *Device) Abandon() { d.hangs.Store(true) }

// FreeMemory returns the number of bytes of device memory that are not allocated.
func (d *Device) FreeMemory() (int64, error) {
	c, err := d.context()
	if err != nil {
		return 0, err
	}
	free, _, r := c.MemoryInfo()
	return free, failed(d, "cuMemGetInfo", "", r)
}

// CanAccess reports whether d can read and write the memory of peer, over NVLink or PCIe, according to the driver.
// Whether it works is another matter. A device can access itself.
func (d *Device) CanAccess(peer *Device) (bool, error) {
	if d == peer {
		return true, nil
	}
	can, r := d.handle.CanAccess(peer.handle)
	return can, failed(d, "cuDeviceCanAccessPeer", "to "+peer.String(), r)
}

// EnablePeer lets d use memory that this process allocates on peer, until
// either is closed. It may be called again. Memory of other processes needs no
// such call. It makes contexts on both devices.
func (d *Device) EnablePeer(peer *Device) error {
	if d == peer {
		return nil
	}
	c, err := d.context()
	if err != nil {
		return err
	}
	p, err := peer.context()
	if err != nil {
		return err
	}
	if r := c.EnablePeer(p); r != driver.PeerEnabled {
		return failed(d, "cuCtxEnablePeerAccess", "to "+peer.String(), r)
	}
	return nil
}
