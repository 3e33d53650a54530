package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda/internal/driver"
)

func TestErrorText(t *testing.T) {
	err := error(&Error{Call: "cuMemAlloc", What: "of 4096 bytes", Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory",
		Code: int(driver.OutOfMemory), Device: 3, UUID: "GPU-00"})
	want := "cuMemAlloc of 4096 bytes on device 3 (GPU-00): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; "
	if !strings.HasPrefix(err.Error(), want) || len(err.Error()) == len(want) {
		t.Errorf("%q, want %q and a hint", err, want)
	}
	for target, is := range map[error]bool{ErrOutOfMemory: true, ErrDeviceLost: false, ErrNotSupported: false} {
		if errors.Is(err, target) != is {
			t.Errorf("errors.Is(%v, %v) = %t", err, target, !is)
		}
	}
	if err := error(&Error{Code: int(driver.LaunchFailed), Device: -1}); !errors.Is(err, ErrDeviceLost) ||
		strings.Contains(err.Error(), "device -1") {
		t.Errorf("%v: want ErrDeviceLost, and no device in the text", err)
	}
}

func TestHints(t *testing.T) {
	for code, want := range map[driver.Result]string{205: "PID namespace", 208: "multiples of 2 MiB",
		209: "CUDA_DISABLE_PTX_JIT", 221: "libnvidia-ptxjitcompiler", 223: "CUDA_DISABLE_JIT", 711: "NVSwitch"} {
		if text := (&Error{Code: int(code), Device: -1}).Error(); !strings.Contains(text, want) {
			t.Errorf("%d: %q, want a hint that names %s", code, text, want)
		}
	}
}

func TestUUIDText(t *testing.T) {
	var b [16]byte
	for i := range b {
		b[i] = byte(i*16 + 15 - i)
	}
	if got, want := uuidText(b), "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestWithoutDriver: without a driver everything that needs one returns an error with the same words; with one, nothing
// does.
func TestWithoutDriver(t *testing.T) {
	open := Open()
	_, version := DriverVersion()
	_, devices := Devices()
	_, byUUID := DeviceByUUID("GPU-none")
	for call, err := range map[string]error{"Open": open, "DriverVersion": version, "Devices": devices,
		"DeviceByUUID": byUUID} {
		if errors.Is(err, ErrUnavailable) != (open != nil) {
			t.Errorf("%s: %v; Open: %v", call, err, open)
		}
		if err != nil && !strings.Contains(err.Error(), ";") {
			t.Errorf("%s: %v has no hint", call, err)
		}
	}
	if open != nil && Stats() != (Counts{}) {
		t.Errorf("without a driver something is open: %+v", Stats())
	}
}
