// Package driver calls NVIDIA's CUDA driver, libcuda.so.1, which it opens at run time: nothing of CUDA is needed to
// build it, and a host without a driver gets an error of Open. abi.h describes the library's interface as far as it is
// used, open.c opens it, and shim.c has the calls; the rest of the repository sees the Go types here. Calls are thin:
// they keep no state except the loaded library, return the driver's own result, and may be made from any goroutine,
// since each makes its context the current one of its thread. Only package cuda imports it.
//
// Before Open has succeeded, and in a build without cgo, nothing else may be
// called.
package driver

import (
	"fmt"
	"strings"
)

// library is the name by which the driver's library is opened.
const library = "libcuda.so.1"

// Result is the return value of a driver call, a CUresult. Success is 0.
type Result int32

// The results that package cuda handles individually.
const (
	Success             Result = 0
	InvalidValue        Result = 1
	OutOfMemory         Result = 2
	NotInitialized      Result = 3
	Deinitialized       Result = 4
	StubLibrary         Result = 34
	DeviceUnavailable   Result = 46
	NoDevice            Result = 100
	InvalidDevice       Result = 101
	InvalidContext      Result = 201
	MapFailed           Result = 205
	AlreadyMapped       Result = 208
	NoBinaryForGPU      Result = 209
	ECCUncorrectable    Result = 214
	PeerUnsupported     Result = 217
	NVLinkUncorrectable Result = 220
	NoJIT               Result = 221
	UnsupportedPTX      Result = 222
	JITDisabled         Result = 223
	OperatingSystem     Result = 304
	NotReady            Result = 600
	IllegalAddress      Result = 700
	LaunchTimeout       Result = 702
	PeerEnabled         Result = 704
	Assert              Result = 710
	TooManyPeers        Result = 711
	HardwareStack       Result = 714
	IllegalInstruction  Result = 715
	MisalignedAddress   Result = 716
	InvalidAddressSpace Result = 717
	InvalidPC           Result = 718
	LaunchFailed        Result = 719
	Contained           Result = 721
	NotPermitted        Result = 800
	NotSupported        Result = 801
	SystemNotReady      Result = 802
	SystemMismatch      Result = 803
	CompatNotSupported  Result = 804
	MPSConnection       Result = 805
	MPSClientTerminated Result = 810
	CaptureUnsupported  Result = 900
	ExternalDevice      Result = 911
	Unknown             Result = 999
)

// NoContext is added to the result of a call that was not made, because its context could not be made current: the rest
// is the result of cuCtxPushCurrent.
const NoContext Result = 1 << 20

// Kinds of events, for Context.NewEvent.
const (
	EventTimed   = 0
	EventUntimed = 2
)

// Kinds of memory, the values of Pointer.Kind.
const (
	HostMemory   = 1
	DeviceMemory = 2
)

// Limits of the calls here.
const (
	MaxBatch = 64   // operations in one Stream.Batch
	MaxArgs  = 4096 // bytes of a kernel's arguments
)

// Handles of the driver; 0 is none.
type (
	Device   int32 // a CUdevice
	Context  uintptr
	Stream   uintptr
	Event    uintptr
	Module   uintptr
	Function uintptr
	Addr     uint64 // a CUdeviceptr
)

// Handle lets another process open an allocation or an event.
type Handle [64]byte

// MemOp is one operation of Stream.Batch: with Wait it is WaitValueGEQ, else WriteValue.
// It lies in memory as shim.h has it.
type MemOp struct {
	Addr  Addr
	Value uint32
	Wait  bool
}

// Description is the driver's description of a device.
type Description struct {
	Device          Device
	Name, PCI       string   // the PCI address as in 0000:B3:00.0
	UUID            [16]byte // of its MIG instance where it is one
	Memory          int64    // bytes
	Multiprocessors int
}

// Pointer is the driver's description of an address.
type Pointer struct {
	Kind        uint32 // HostMemory, DeviceMemory, or 0: not known to the driver
	Managed     bool   // moves between host and devices
	Pooled      bool   // of a memory pool
	Exportable  bool   // by Context.ExportMemory
	Device      int32  // the ordinal of its device
	Start, Size uint64 // of its allocation, bytes
	ID          uint64 // of its allocation: no other of this process ever has it
}

// OpenError is the reason why the driver cannot be used.
type OpenError struct {
	Text    string // the cause, or the name of the call that failed
	Result  Result // of that call; Success if none was made
	Version int    // of CUDA that the driver supports, 12040 for 12.4; 0: not known
}

// Error names the library and the cause.
func (e *OpenError) Error() string {
	if e.Result == Success && strings.Contains(e.Text, library) {
		return e.Text // dlopen's, which names it
	}
	if e.Result == Success {
		return library + ": " + e.Text
	}
	name, text := ErrorText(e.Result)
	return fmt.Sprintf("%s: %s: %s (%d): %s", library, e.Text, name, e.Result, text)
}
