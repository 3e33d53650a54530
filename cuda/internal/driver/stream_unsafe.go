//go:build cgo && linux

package driver

// #include <stdlib.h>
// #include "shim.h"
import "C"

import "unsafe"

// NewStream makes a stream that does not synchronize with the default one. A lower priority goes first; a priority that
// the device does not have becomes the nearest one that it has.
func (c Context) NewStream(priority int) (Stream, Result) {
	v := C.treerun_cuda_stream_create(C.uintptr_t(c), C.int(priority))
	return Stream(v.value), Result(v.result)
}

// Destroy ends s once its work is done; it does not wait for that.
func (s Stream) Destroy(c Context) Result {
	return Result(C.treerun_cuda_stream_destroy(C.uintptr_t(c), C.uintptr_t(s)))
}

// Query returns Success when all work is done, else NotReady or an error.
func (s Stream) Query(c Context) Result {
	return Result(C.treerun_cuda_stream_query(C.uintptr_t(c), C.uintptr_t(s)))
}

// Uncaptured returns CaptureUnsupported while s is being captured.
func (s Stream) Uncaptured(c Context) Result {
	return Result(C.treerun_cuda_stream_uncaptured(C.uintptr_t(c), C.uintptr_t(s)))
}

// Context returns the context whose stream s is.
func (s Stream) Context(c Context) (Context, Result) {
	v := C.treerun_cuda_stream_context(C.uintptr_t(c), C.uintptr_t(s))
	return Context(v.value), Result(v.result)
}

// WaitEvent makes s wait for e.
func (s Stream) WaitEvent(c Context, e Event) Result {
	return Result(C.treerun_cuda_stream_wait_event(C.uintptr_t(c), C.uintptr_t(s), C.uintptr_t(e)))
}

// Batch does operations, at most MaxBatch, in one call.
func (s Stream) Batch(c Context, ops []MemOp) Result {
	return Result(C.treerun_cuda_stream_batch(C.uintptr_t(c), C.uintptr_t(s), C.uint(len(ops)),
		(*C.treerun_cuda_mem_op)(unsafe.Pointer(unsafe.SliceData(ops)))))
}

// Copy copies n bytes between any two addresses that the driver knows.
func (s Stream) Copy(c Context, dst, src Addr, n int64) Result {
	return Result(C.treerun_cuda_copy(C.uintptr_t(c), C.uint64_t(dst), C.uint64_t(src), C.size_t(n), C.uintptr_t(s)))
}

// CopyIn copies src to the device. src must stay, pinned against Go's collector, until s has passed the copy.
func (s Stream) CopyIn(c Context, dst Addr, src []byte) Result {
	return Result(C.treerun_cuda_copy_in(C.uintptr_t(c), C.uint64_t(dst), unsafe.Pointer(unsafe.SliceData(src)),
		C.size_t(len(src)), C.uintptr_t(s)))
}

// CopyOut copies from the device to dst. dst must stay, pinned against Go's collector, until s has passed the copy.
func (s Stream) CopyOut(c Context, dst []byte, src Addr) Result {
	return Result(C.treerun_cuda_copy_out(C.uintptr_t(c), unsafe.Pointer(unsafe.SliceData(dst)), C.uint64_t(src),
		C.size_t(len(dst)), C.uintptr_t(s)))
}

// Set sets n bytes to v.
func (s Stream) Set(c Context, dst Addr, v byte, n int64) Result {
	return Result(C.treerun_cuda_set(C.uintptr_t(c), C.uint64_t(dst), C.uchar(v), C.size_t(n), C.uintptr_t(s)))
}

// Launch runs f with grid blocks of block threads each; args is its only
// parameter, a struct by value, at most MaxArgs bytes.
func (s Stream) Launch(c Context, f Function, grid, block uint32, args []byte) Result {
	return Result(C.treerun_cuda_launch(C.uintptr_t(c), C.uintptr_t(s), C.uintptr_t(f), C.uint(grid), C.uint(block),
		unsafe.Pointer(unsafe.SliceData(args)), C.size_t(len(args))))
}

// NewEvent makes an event, of one of the kinds above.
func (c Context) NewEvent(kind int) (Event, Result) {
	v := C.treerun_cuda_event_create(C.uintptr_t(c), C.uint(kind))
	return Event(v.value), Result(v.result)
}

// Destroy ends e; it does not wait for it.
func (e Event) Destroy(c Context) Result {
	return Result(C.treerun_cuda_event_destroy(C.uintptr_t(c), C.uintptr_t(e)))
}

// Record marks the current end of s with e.
func (e Event) Record(c Context, s Stream) Result {
	return Result(C.treerun_cuda_event_record(C.uintptr_t(c), C.uintptr_t(e), C.uintptr_t(s)))
}

// Query returns Success when the work before e is done, else NotReady or an
// error.
func (e Event) Query(c Context) Result {
	return Result(C.treerun_cuda_event_query(C.uintptr_t(c), C.uintptr_t(e)))
}

// Since returns the milliseconds from one event of kind EventTimed to e.
func (e Event) Since(c Context, from Event) (ms float32, r Result) {
	r = Result(C.treerun_cuda_event_elapsed(C.uintptr_t(c), (*C.float)(&ms), C.uintptr_t(from), C.uintptr_t(e)))
	return ms, r
}

// Load compiles or loads an image, PTX or binary. log is the messages of the driver's compiler.
func (c Context) Load(image []byte) (m Module, log string, r Result) {
	text := C.CString(string(image)) // copies, and ends it with a zero byte
	defer C.free(unsafe.Pointer(text))
	var b [4096]byte
	v := C.treerun_cuda_module_load(C.uintptr_t(c), text, (*C.char)(unsafe.Pointer(&b[0])), C.uint(len(b)))
	return Module(v.value), cString(b[:]), Result(v.result)
}

// Unload ends m and its functions.
func (m Module) Unload(c Context) Result {
	return Result(C.treerun_cuda_module_unload(C.uintptr_t(c), C.uintptr_t(m)))
}

// Function returns a function of m by name.
func (m Module) Function(c Context, name string) (Function, Result) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	v := C.treerun_cuda_module_function(C.uintptr_t(c), C.uintptr_t(m), text)
	return Function(v.value), Result(v.result)
}

// Load makes the driver load f, if it has not.
func (f Function) Load(c Context) Result {
	return Result(C.treerun_cuda_function_load(C.uintptr_t(c), C.uintptr_t(f)))
}
