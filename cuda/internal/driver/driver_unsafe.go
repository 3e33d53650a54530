//go:build cgo && linux

package driver

// #cgo CFLAGS: -O2 -Wall
// #cgo LDFLAGS: -ldl
// #cgo noescape treerun_cuda_launch
// #cgo nocallback treerun_cuda_launch
// #cgo noescape treerun_cuda_stream_batch
// #cgo nocallback treerun_cuda_stream_batch
// #cgo noescape treerun_cuda_event_elapsed
// #cgo nocallback treerun_cuda_event_elapsed
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bytes"
	"strconv"
	"unsafe"
)

// Built reports whether this build has cgo: it has.
const Built = true

// Open opens the driver, looks up its entry points and initializes it. It returns the version of CUDA that the driver
// supports, 12040 for 12.4; the error is an *OpenError. It must be called once only.
func Open() (version int, err error) { return open(library) }

// open is Open of a library by a name or path.
func open(library string) (version int, err error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var text [512]byte
	var v C.int
	var r C.CUresult
	if C.treerun_cuda_open(name, &v, &r, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))) != 0 {
		return 0, &OpenError{Text: cString(text[:]), Result: Result(r), Version: int(v)}
	}
	return int(v), nil
}

// cString returns the text before the first zero byte.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// ErrorText returns the driver's name and description of a result.
func ErrorText(r Result) (name, text string) {
	var n, t *C.char
	C.treerun_cuda_error(C.CUresult(r), &n, &t)
	name, text = "CUDA_ERROR_"+strconv.Itoa(int(r)), "no text of the driver"
	if n != nil {
		name = C.GoString(n)
	}
	if t != nil {
		text = C.GoString(t)
	}
	return name, text
}

// Count returns the number of devices that this process sees.
func Count() (int, Result) {
	v := C.treerun_cuda_device_count()
	return int(v.value), Result(v.result)
}

// Describe returns the description of a device, by its ordinal from 0 to Count()-1, or the failed call and its result.
func Describe(ordinal int) (d Description, call string, r Result) {
	v := C.treerun_cuda_device_describe(C.int(ordinal))
	d = Description{Device: Device(v.device), Name: C.GoString(&v.name[0]), PCI: C.GoString(&v.pci[0]),
		UUID: *(*[16]byte)(unsafe.Pointer(&v.uuid)), Memory: int64(v.memory), Multiprocessors: int(v.multiprocessors)}
	return d, C.GoString(v.call), Result(v.result)
}

// CanAccess reports whether d can read and write the memory of peer.
func (d Device) CanAccess(peer Device) (bool, Result) {
	v := C.treerun_cuda_device_can_access(C.CUdevice(d), C.CUdevice(peer))
	return v.value != 0, Result(v.result)
}

// Retain returns the device's primary context and keeps it until Release.
func (d Device) Retain() (Context, Result) {
	v := C.treerun_cuda_context_retain(C.CUdevice(d))
	return Context(v.value), Result(v.result)
}

// Release gives up the context of one Retain.
func (d Device) Release() Result { return Result(C.treerun_cuda_context_release(C.CUdevice(d))) }

// EnablePeer lets c reach the memory of peer's device.
func (c Context) EnablePeer(peer Context) Result {
	return Result(C.treerun_cuda_enable_peer(C.uintptr_t(c), C.uintptr_t(peer)))
}

// MemoryInfo returns the numbers of free bytes and of all bytes of the device.
func (c Context) MemoryInfo() (free, total int64, r Result) {
	v := C.treerun_cuda_memory_info(C.uintptr_t(c))
	return int64(v.a), int64(v.b), Result(v.result)
}

// Alloc allocates n bytes of device memory, n > 0.
func (c Context) Alloc(n int64) (Addr, Result) {
	v := C.treerun_cuda_alloc(C.uintptr_t(c), C.size_t(n))
	return Addr(v.value), Result(v.result)
}

// Free frees memory of Alloc. It waits for the work that uses it.
func (c Context) Free(a Addr) Result {
	return Result(C.treerun_cuda_free(C.uintptr_t(c), C.uint64_t(a)))
}

// AllocPooled allocates n bytes of the device's memory pool, in order with s. Package cuda does not call it, but others
// may pass it such memory: its tests do.
func (c Context) AllocPooled(s Stream, n int64) (Addr, Result) {
	v := C.treerun_cuda_alloc_pooled(C.uintptr_t(c), C.uintptr_t(s), C.size_t(n))
	return Addr(v.value), Result(v.result)
}

// FreePooled frees memory of AllocPooled, in order with s.
func (c Context) FreePooled(s Stream, a Addr) Result {
	return Result(C.treerun_cuda_free_pooled(C.uintptr_t(c), C.uintptr_t(s), C.uint64_t(a)))
}

// AllocHost allocates n bytes of pinned host memory, which all devices reach.
func (c Context) AllocHost(n int) ([]byte, Result) {
	v := C.treerun_cuda_host_alloc(C.uintptr_t(c), C.size_t(n))
	if r := Result(v.result); r != Success {
		return nil, r
	}
	return unsafe.Slice((*byte)(hostPointer(uint64(v.value))), n), Success
}

// hostPointer makes a pointer of an address of memory that is not Go's.
func hostPointer(a uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a))
}

// FreeHost frees memory of AllocHost.
func (c Context) FreeHost(b []byte) Result {
	return Result(C.treerun_cuda_host_free(C.uintptr_t(c), unsafe.Pointer(unsafe.SliceData(b))))
}

// RegisterHost pins b, which is not memory of Go's, for all devices.
func (c Context) RegisterHost(b []byte) Result {
	return Result(C.treerun_cuda_host_register(C.uintptr_t(c), unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))))
}

// UnregisterHost undoes RegisterHost.
func (c Context) UnregisterHost(b []byte) Result {
	return Result(C.treerun_cuda_host_unregister(C.uintptr_t(c), unsafe.Pointer(unsafe.SliceData(b))))
}

// HostAddr returns the address of pinned memory for the device.
func (c Context) HostAddr(b []byte) (Addr, Result) {
	v := C.treerun_cuda_host_address(C.uintptr_t(c), unsafe.Pointer(unsafe.SliceData(b)))
	return Addr(v.value), Result(v.result)
}

// AddressRange returns the allocation that contains a.
func (c Context) AddressRange(a Addr) (base Addr, size int64, r Result) {
	v := C.treerun_cuda_address_range(C.uintptr_t(c), C.uint64_t(a))
	return Addr(v.a), int64(v.b), Result(v.result)
}

// Describe returns the driver's description of an address.
func (c Context) Describe(a Addr) (Pointer, Result) {
	p := C.treerun_cuda_pointer_of(C.uintptr_t(c), C.uint64_t(a))
	return Pointer{
		Kind:       uint32(p.memory_type),
		Managed:    p.managed != 0,
		Pooled:     p.pooled != 0,
		Exportable: p.exportable != 0,
		Device:     int32(p.device),
		Start:      uint64(p.start),
		Size:       uint64(p.size),
		ID:         uint64(p.id),
	}, Result(p.result)
}

// ExportMemory returns the handle of an allocation, given by its base.
func (c Context) ExportMemory(base Addr) (Handle, Result) {
	var h Handle
	r := C.treerun_cuda_memory_export(C.uintptr_t(c), C.uint64_t(base), (*C.uchar)(&h[0]))
	return h, Result(r)
}

// OpenMemory maps an allocation of another process and returns its base address here.
func (c Context) OpenMemory(h Handle) (Addr, Result) {
	v := C.treerun_cuda_memory_open(C.uintptr_t(c), (*C.uchar)(&h[0]))
	return Addr(v.value), Result(v.result)
}

// CloseMemory undoes one OpenMemory, given the base that it returned.
func (c Context) CloseMemory(base Addr) Result {
	return Result(C.treerun_cuda_memory_close(C.uintptr_t(c), C.uint64_t(base)))
}
