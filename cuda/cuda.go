// Package cuda uses NVIDIA GPUs through the driver's library, which it opens at
// run time: devices, streams, events, device and pinned memory, memory of other
// processes, and kernels. Nothing of CUDA is needed to build it. Where there is
// no driver, or the build has no cgo, every call that needs one returns an
// error that wraps ErrUnavailable. HostGPUs works without any of this.
//
// Lifetimes: a value that has a Close or Free must be closed by the code that made it, when no work uses it any more. A
// forgotten value is closed once nothing refers to it (Stats counts that). Close may not run at the same time as
// another method of the same value; otherwise all of this may be called from any goroutine.
//
// Waiting streams: some calls of the driver wait until the device is idle (freeing memory, loading a module, sometimes
// allocating). Make such a call while a stream waits for something that only you can bring about, and both wait
// forever. So allocate, open and load first, then enqueue; before freeing, make sure that the streams come to their
// end.
//
// Anyone may import this package. Of treerun it imports only package driver below it, which calls the library, and a
// package that waits.
package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// ErrUnavailable is wrapped by the error of every call that found no usable driver: none installed, too old, without a
// GPU that this process may use, or a build without cgo. The text gives the reason and a remedy.
var ErrUnavailable = errors.New("no usable CUDA driver")

// library opens the driver's library, once per process, and returns its version.
var library = sync.OnceValues(func() (int, error) {
	version, err := 0, wantQueues()
	if err == nil {
		version, err = driver.Open()
	}
	if err != nil {
		err = fmt.Errorf("cuda: %w: %w%s", ErrUnavailable, err, openHint(err))
	}
	return version, err
})

// Open opens the driver, the first time it is called; later calls return the same result. It need not be called: every
// call that needs the driver opens it.
func Open() error {
	_, err := library()
	return err
}

// DriverVersion returns the version of CUDA that the driver supports, as in
// "12.4".
func DriverVersion() (string, error) {
	v, err := library()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

// openHint returns a remedy for a driver that could not be opened.
func openHint(err error) string {
	var e *driver.OpenError
	switch {
	case !errors.As(err, &e):
		return ""
	case !driver.Built:
		return "; build it with CGO_ENABLED=1 and a C compiler"
	case e.Result != driver.Success:
		return hint(e.Result) + controlDevice("/dev/nvidiactl")
	case e.Version != 0:
		return "; install a newer NVIDIA driver"
	default:
		return "; this host has no NVIDIA driver, or its container was started without the GPUs"
	}
}

// controlDevice returns the system's error when this user may not open the file that every use of a GPU begins with:
// the driver's own words do not mention it.
func controlDevice(file string) string {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return ""
	}
	if errors.Is(err, os.ErrPermission) {
		return "; " + err.Error()
	}
	return ""
}
