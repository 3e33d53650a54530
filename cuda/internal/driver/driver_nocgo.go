//go:build !cgo || !linux

package driver

// Without cgo Open fails, and so the other functions are never called.

// Built reports whether this build has cgo: it has not.
const Built = false

// Open returns an *OpenError: this build cannot open the driver.
func Open() (version int, err error) {
	return 0, &OpenError{Text: "treerun was built without cgo, or not for Linux"}
}

// ErrorText returns the name and text for a driver that is not there.
func ErrorText(Result) (name, text string) { return "CUDA_ERROR_NOT_INITIALIZED", "no driver" }

// Count returns NotInitialized.
func Count() (int, Result) { return 0, NotInitialized }

// Describe returns NotInitialized.
func Describe(int) (Description, string, Result) { return Description{}, "", NotInitialized }

// CanAccess returns NotInitialized.
func (Device) CanAccess(Device) (bool, Result) { return false, NotInitialized }

// Retain returns NotInitialized.
func (Device) Retain() (Context, Result) { return 0, NotInitialized }

// Release returns NotInitialized.
func (Device) Release() Result { return NotInitialized }

// EnablePeer returns NotInitialized.
func (Context) EnablePeer(Context) Result { return NotInitialized }

// MemoryInfo returns NotInitialized.
func (Context) MemoryInfo() (int64, int64, Result) { return 0, 0, NotInitialized }

// Alloc returns NotInitialized.
func (Context) Alloc(int64) (Addr, Result) { return 0, NotInitialized }

// Free returns NotInitialized.
func (Context) Free(Addr) Result { return NotInitialized }

// AllocPooled returns NotInitialized.
func (Context) AllocPooled(Stream, int64) (Addr, Result) { return 0, NotInitialized }

// FreePooled returns NotInitialized.
func (Context) FreePooled(Stream, Addr) Result { return NotInitialized }

// AllocHost returns NotInitialized.
func (Context) AllocHost(int) ([]byte, Result) { return nil, NotInitialized }

// FreeHost returns NotInitialized.
func (Context) FreeHost([]byte) Result { return NotInitialized }

// RegisterHost returns NotInitialized.
func (Context) RegisterHost([]byte) Result { return NotInitialized }

// UnregisterHost returns NotInitialized.
func (Context) UnregisterHost([]byte) Result { return NotInitialized }

// HostAddr returns NotInitialized.
func (Context) HostAddr([]byte) (Addr, Result) { return 0, NotInitialized }

// AddressRange returns NotInitialized.
func (Context) AddressRange(Addr) (Addr, int64, Result) { return 0, 0, NotInitialized }

// Describe returns NotInitialized.
func (Context) Describe(Addr) (Pointer, Result) { return Pointer{}, NotInitialized }

// ExportMemory returns NotInitialized.
func (Context) ExportMemory(Addr) (Handle, Result) { return Handle{}, NotInitialized }

// OpenMemory returns NotInitialized.
func (Context) OpenMemory(Handle) (Addr, Result) { return 0, NotInitialized }

// CloseMemory returns NotInitialized.
func (Context) CloseMemory(Addr) Result { return NotInitialized }

// NewStream returns NotInitialized.
func (Context) NewStream(int) (Stream, Result) { return 0, NotInitialized }

// Destroy returns NotInitialized.
func (Stream) Destroy(Context) Result { return NotInitialized }

// Query returns NotInitialized.
func (Stream) Query(Context) Result { return NotInitialized }

// Uncaptured returns NotInitialized.
func (Stream) Uncaptured(Context) Result { return NotInitialized }

// Context returns NotInitialized.
func (Stream) Context(Context) (Context, Result) { return 0, NotInitialized }

// WaitEvent returns NotInitialized.
func (Stream) WaitEvent(Context, Event) Result { return NotInitialized }

// Batch returns NotInitialized.
func (Stream) Batch(Context, []MemOp) Result { return NotInitialized }

// Copy returns NotInitialized.
func (Stream) Copy(Context, Addr, Addr, int64) Result { return NotInitialized }

// CopyIn returns NotInitialized.
func (Stream) CopyIn(Context, Addr, []byte) Result { return NotInitialized }

// CopyOut returns NotInitialized.
func (Stream) CopyOut(Context, []byte, Addr) Result { return NotInitialized }

// Set returns NotInitialized.
func (Stream) Set(Context, Addr, byte, int64) Result { return NotInitialized }

// Launch returns NotInitialized.
func (Stream) Launch(Context, Function, uint32, uint32, []byte) Result { return NotInitialized }

// NewEvent returns NotInitialized.
func (Context) NewEvent(int) (Event, Result) { return 0, NotInitialized }

// Destroy returns NotInitialized.
func (Event) Destroy(Context) Result { return NotInitialized }

// Record returns NotInitialized.
func (Event) Record(Context, Stream) Result { return NotInitialized }

// Query returns NotInitialized.
func (Event) Query(Context) Result { return NotInitialized }

// Since returns NotInitialized.
func (Event) Since(Context, Event) (float32, Result) { return 0, NotInitialized }

// Load returns NotInitialized.
func (Context) Load([]byte) (Module, string, Result) { return 0, "", NotInitialized }

// Unload returns NotInitialized.
func (Module) Unload(Context) Result { return NotInitialized }

// Function returns NotInitialized.
func (Module) Function(Context, string) (Function, Result) { return 0, NotInitialized }

// Load returns NotInitialized.
func (Function) Load(Context) Result { return NotInitialized }
