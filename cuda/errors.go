package cuda

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Errors that callers may want to distinguish, with errors.Is. An *Error is the first three of them according to its
// code.
var (
	// ErrOutOfMemory: the device, or the host for pinned memory, has too little.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrNotSupported: this device or driver cannot do it.
	ErrNotSupported = errors.New("not supported")
	// ErrDeviceLost: the device has failed, or work on it has failed in a way
	// after which this process can do nothing more with it.
	ErrDeviceLost = errors.New("device lost to this process")
	// ErrClosed: the stream, event, module or mapping was closed before.
	ErrClosed = errors.New("closed")
	// ErrFreed: the memory was freed before.
	ErrFreed = errors.New("freed")
	// ErrNotDeviceMemory: the address is not one of device memory.
	ErrNotDeviceMemory = errors.New("not device memory")
	// ErrWrongDevice: the stream, event, kernel or memory is another device's.
	ErrWrongDevice = errors.New("wrong device")
	// ErrOutOfRange: more elements than the memory holds.
	ErrOutOfRange = errors.New("out of range")
	// ErrNotExportable: the memory cannot be opened by another process: it is
	// of a pool, mapped page by page, managed, the host's, or another process's.
	ErrNotExportable = errors.New("memory cannot be exported to another process")
)

// Error is a failed call of the driver.
type Error struct {
	Call   string // "cuMemAlloc"
	What   string // the arguments, as in "of 4096 bytes"; may be empty
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text   string // the driver's description
	Code   int    // the driver's number
	Device int    // index of the device, -1 when none was concerned
	UUID   string // of that device
}

// Error returns the failed call and its device, the driver's description, and a remedy where there is one.
func (e *Error) Error() string {
	s := e.Call
	if e.What != "" {
		s += " " + e.What
	}
	if e.Device >= 0 {
		s += fmt.Sprintf(" on device %d (%s)", e.Device, e.UUID)
	}
	return fmt.Sprintf("%s: %s (%d): %s%s", s, e.Name, e.Code, e.Text, hint(driver.Result(e.Code)))
}

// Is makes an Error match ErrOutOfMemory, ErrNotSupported and ErrDeviceLost.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrOutOfMemory:
		return driver.Result(e.Code) == driver.OutOfMemory
	case ErrNotSupported:
		return driver.Result(e.Code) == driver.NotSupported
	case ErrDeviceLost:
		return lost(driver.Result(e.Code))
	}
	return false
}

// lost reports whether a process can do nothing more with a device after r: every later call returns the same.
func lost(r driver.Result) bool {
	switch r {
	case driver.Deinitialized, driver.ECCUncorrectable, driver.NVLinkUncorrectable, driver.IllegalAddress,
		driver.LaunchTimeout, driver.Assert, driver.HardwareStack, driver.IllegalInstruction, driver.MisalignedAddress,
		driver.InvalidAddressSpace, driver.InvalidPC, driver.LaunchFailed, driver.Contained, driver.MPSClientTerminated,
		driver.ExternalDevice, driver.Unknown:
		return true
	}
	return false
}

// hint returns a remedy for a result, "; " in front, or nothing.
func hint(r driver.Result) string {
	for _, h := range hints {
		if h.result == r {
			return "; " + h.text
		}
	}
	return ""
}

var hints = []struct {
	result driver.Result
	text   string
}{
	{driver.OutOfMemory, "other processes may use the device (nvidia-smi); use fewer ranks per GPU or smaller buffers"},
	{driver.StubLibrary, "the libcuda.so.1 found is the toolkit's stub: take its folder out of LD_LIBRARY_PATH"},
	{driver.DeviceUnavailable, "another process has the device for itself (nvidia-smi -q -d COMPUTE), or it is being " +
		"reset"},
	{driver.NoDevice, "no GPU for this process: see nvidia-smi, CUDA_VISIBLE_DEVICES and the rights on /dev/nvidia*"},
	{driver.InvalidDevice, "does CUDA_VISIBLE_DEVICES name devices that exist?"},
	{driver.InvalidContext, "memory and events of one's own process cannot be opened"},
	{driver.MapFailed, "the exporting process must be alive, on this host, and in the same IPC and PID namespace " +
		"(docker --ipc=host --pid=host)"},
	{driver.AlreadyMapped, "this process has the block open in which that memory lies: allocate shared memory in " +
		"multiples of 2 MiB"},
	{driver.NoBinaryForGPU, "the kernels are PTX for GPUs of compute capability 7.0 or later; is CUDA_DISABLE_PTX_JIT " +
		"set?"},
	{driver.NoJIT, "the driver's compiler, libnvidia-ptxjitcompiler.so.1, is missing: containers need the compute " +
		"capability (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"},
	{driver.UnsupportedPTX, "install a newer NVIDIA driver"},
	{driver.JITDisabled, "kernels are PTX, which the driver compiles: take CUDA_DISABLE_PTX_JIT and CUDA_DISABLE_JIT " +
		"out of the environment"},
	{driver.TooManyPeers, "a GPU reads the memory of 8 others at most where no NVSwitch joins them: leave some out " +
		"(--gpus)"},
	{driver.PeerUnsupported, "these two devices have no way to each other's memory (nvidia-smi topo -p2p r)"},
	{driver.ECCUncorrectable, "the GPU's memory failed: see dmesg for Xid messages, and reset or replace it"},
	{driver.NVLinkUncorrectable, "NVLink failed: see dmesg for Xid messages"},
	{driver.OperatingSystem, "the system refused: are the rights on /dev/nvidia* and the limits (ulimit -l) enough?"},
	{driver.IllegalAddress, "work on this device used memory that is not mapped; this process cannot use it any more"},
	{driver.LaunchFailed, "work on this device failed; this process cannot use it any more; see dmesg for Xid messages"},
	{driver.NotPermitted, "this user may not do that here"},
	{driver.SystemNotReady, "is nvidia-fabricmanager running (NVSwitch machines), or is the driver still starting?"},
	{driver.SystemMismatch, "the library and the kernel module are of different versions: restart after the driver's " +
		"update"},
	{driver.CompatNotSupported, "the forward compatibility library does not support this GPU: take it out of " +
		"LD_LIBRARY_PATH"},
	{driver.MPSConnection, "is the MPS daemon that CUDA_MPS_PIPE_DIRECTORY names running?"},
	{driver.CaptureUnsupported, "end the capture of the stream first: captured work cannot be replayed here"},
	{driver.Unknown, "the GPU may be lost: see nvidia-smi, and dmesg for Xid messages"},
}

// failed makes an error of a result; nil for success. d may be nil.
func failed(d *Device, call, what string, r driver.Result) error {
	if r == driver.Success {
		return nil
	}
	if r&driver.NoContext != 0 {
		call, r = "cuCtxPushCurrent before "+call, r&^driver.NoContext
	}
	name, text := driver.ErrorText(r)
	e := &Error{Call: call, What: what, Name: name, Text: text, Code: int(r), Device: -1}
	if d != nil {
		e.Device, e.UUID = d.index, d.uuid
	}
	return e
}
