package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// gpuFolder holds one folder per GPU, named after its PCI address.
const gpuFolder = "proc/driver/nvidia/gpus"

// HostGPUs returns the number of NVIDIA GPUs that this host, or this container,
// has: 0 when there is no driver. It does not look at CUDA_VISIBLE_DEVICES.
func HostGPUs() (int, error) {
	return hostGPUs(os.DirFS("/"))
}

func hostGPUs(root fs.FS) (int, error) {
	entries, err := fs.ReadDir(root, gpuFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cuda: count the GPUs of this host: %w", err)
	}
	n := 0
	for _, e := range entries {
		if e.IsDir() {
			n++
		}
	}
	return n, nil
}
