package cuda

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// kind is the kind of a resource, and the index of its counter.
type kind int

const (
	kindMemory kind = iota
	kindPinned
	kindRegistered
	kindStream
	kindEvent
	kindMapping
	kindModule
	kinds
)

// kindOf holds the name of each kind, the call that gives it back, and the call that queries whether it is done.
var kindOf = [kinds]struct{ name, release, query string }{
	{name: "device memory", release: "cuMemFree"},
	{name: "pinned memory", release: "cuMemFreeHost"},
	{name: "registered memory", release: "cuMemHostUnregister"},
	{name: "stream", release: "cuStreamDestroy", query: "cuStreamQuery"},
	{name: "event", release: "cuEventDestroy", query: "cuEventQuery"},
	{name: "mapping of another process's memory", release: "cuIpcCloseMemHandle"},
	{name: "module", release: "cuModuleUnload"},
}

// live counts the open resources of this process.
var live struct {
	count     [kinds]atomic.Int64
	bytes     atomic.Int64
	contexts  atomic.Int64
	collected atomic.Int64
}

// Counts is the resources that this process holds of all devices.
type Counts struct {
	Allocations int64 // of device memory
	Bytes       int64 // of these
	Pinned      int64 // allocations of pinned host memory
	Registered  int64 // ranges of host memory pinned by RegisterHost
	Streams     int64
	Events      int64
	Mappings    int64 // of other processes' memory
	Modules     int64
	Contexts    int64 // devices in use
	Collected   int64 // the number of values that were forgotten, and closed by the collector
}

// Stats returns the counts of open resources. Tests compare them before and after; they are exact when nothing is made
// or closed meanwhile.
func Stats() Counts {
	n := func(k kind) int64 { return live.count[k].Load() }
	return Counts{
		Allocations: n(kindMemory), Bytes: live.bytes.Load(), Pinned: n(kindPinned), Registered: n(kindRegistered),
		Streams: n(kindStream), Events: n(kindEvent), Mappings: n(kindMapping), Modules: n(kindModule),
		Contexts: live.contexts.Load(), Collected: live.collected.Load(),
	}
}

// resource is the part of a value that must be given back to the driver. It does not refer to the value, so that the
// collector can find out when that is gone.
type resource struct {
	device  *Device
	context driver.Context
	kind    kind
	bytes   int64 // of device memory
	release func(driver.Context) driver.Result
	closed  atomic.Bool
	lent    atomic.Bool // another library has its handle: only Close gives it back
}

// own counts r, which it returns, and makes it go when owner is collected, if not before.
func own[T any](owner *T, r *resource) *resource {
	live.count[r.kind].Add(1)
	live.bytes.Add(r.bytes)
	r.device.users.Add(1)
	runtime.AddCleanup(owner, func(r *resource) {
		if r.closed.Load() || r.lent.Load() {
			return
		}
		live.collected.Add(1)
		// The driver may wait for the device, and cleanups share a goroutine.
		go r.Close()
	}, r)
	return r
}

// Device returns its device.
func (r *resource) Device() *Device { return r.device }

// Close gives it back; no work may use it any more. A second Close does nothing. After an error it cannot necessarily
// be tried again: the driver also reports here that earlier work has failed.
func (r *resource) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	if r.device.hangs.Load() {
		return nil // Stats continues to count it
	}
	result := r.release(r.context)
	live.count[r.kind].Add(-1)
	live.bytes.Add(-r.bytes)
	r.device.users.Add(-1)
	return failed(r.device, kindOf[r.kind].release, "", result)
}

// Check returns an error that wraps ErrClosed, or ErrFreed, when it was closed.
func (r *resource) Check() error {
	if !r.closed.Load() {
		return nil
	}
	end := ErrClosed
	if r.kind == kindMemory || r.kind == kindPinned {
		end = ErrFreed
	}
	return fmt.Errorf("cuda: %s on %s was %w", kindOf[r.kind].name, r.device, end)
}
