// Package nvml queries NVIDIA's management library about the GPUs of this host: their number, where they sit and which
// links join them. It opens libnvidia-ml.so.1 at run time, runs nothing on a GPU and makes no context there; it reports
// GPUs whatever the value of CUDA_VISIBLE_DEVICES. Without cgo, or without a driver, every call returns ErrUnavailable.
// The launcher and package collective import it, through package topo/gpu's types.
package nvml

import "errors"

// ErrUnavailable reports that NVML cannot be queried on this host, or by this build. Errors that wrap it give the
// reason.
var ErrUnavailable = errors.New("NVML is not available")

// ErrBroken is wrapped, together with ErrUnavailable, where there is a driver.
var ErrBroken = errors.New("there is a driver, and it does not work")
