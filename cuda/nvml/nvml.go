// Package nvml asks NVIDIA's management library about the GPUs of this host:
// which there are, where they sit and which links join them. It opens
// libnvidia-ml.so.1 at run time, runs nothing on a GPU and makes no context there; it
// reports GPUs whatever CUDA_VISIBLE_DEVICES says.
// Without cgo, or without a driver, every call returns ErrUnavailable. The
// launcher and package collective import it, through package topo/gpu's types.
package nvml

import (
	"errors"

	"github.com/treerun/treerun/topo/gpu"
)

// ErrUnavailable says that NVML cannot be asked on this host, or by this build.
// Errors that wrap it tell why.
var ErrUnavailable = errors.New("NVML is not available")

// ErrBroken is wrapped, beside ErrUnavailable, where there is a driver.
var ErrBroken = errors.New("there is a driver, and it does not work")

// Read asks NVML about all GPUs of this host. The Machine is the caller's. An
// error is ErrUnavailable where there is no driver; else it names the call of NVML
// and the GPU. Goroutines may call it at the same time; it takes some
// milliseconds, and up to seconds where no program keeps the driver awake.
func Read() (*gpu.Machine, error) { return read() }
