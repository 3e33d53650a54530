package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/check"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/topo/gpu"
)

// runCheck is the command check, of this host.
func runCheck(args []string) (int, error) {
	return check.Main(os.Stdout, args, &check.Host{
		Devices: cudaDevices, Machine: nvml.Read, Kernel: cuda.HostGPUs, Peers: measurePeers, Limits: readLimits,
		Network: iface.Read,
	})
}

func cudaDevices() (string, []check.Device, error) {
	version, err := cuda.DriverVersion()
	if err != nil {
		return "", nil, err
	}
	all, err := cuda.Devices()
	if err != nil {
		return "", nil, err
	}
	var list []check.Device
	for _, d := range all {
		list = append(list, check.Device{UUID: d.UUID(), MemOps: d.TryStreamMemOps()})
		if err := d.Close(); err != nil { // ranks may want all of its memory
			return "", nil, err
		}
	}
	return version, list, nil
}

// measurePeers lets a rank on every GPU measure, two where there is only one GPU.
func measurePeers(*gpu.Machine) (*peers.HostResult, error) {
	request := gpus.Request{}
	n, err := gpus.Count(request, os.Environ())
	if err != nil {
		return nil, err
	}
	if n == 1 {
		request.PerGPU, n = 2, 2
	}
	r, code, err := measureGraph(&launch.Job{
		Size: n, GPUs: request, Settings: map[string]string{"no-topo-cache": "1"},
		Screen: output.NewScreen(os.Stdout, os.Stderr),
	})
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, fmt.Errorf("ranks on the GPUs have failed with code %d", code)
	case len(r.Hosts) != 1:
		return nil, errors.New("ranks on the GPUs have got none")
	}
	return &r.Hosts[0], nil
}

// readLimits asks the system.
func readLimits() check.Limits {
	l := check.Limits{Locked: math.MaxUint64, Cores: runtime.NumCPU(), Usable: cmdline.UsableCores(), DevShm: -1,
		Shared: shareMemory()}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) == nil && os.Geteuid() != 0 { // root locks what it likes
		l.Locked = r.Cur
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		l.Files, l.MostFiles = r.Cur, r.Max
	}
	var s unix.Statfs_t
	if unix.Statfs("/dev/shm", &s) == nil {
		l.DevShm = int64(s.Blocks) * s.Bsize
	}
	return l
}

// shareMemory makes some shared memory as jobs do, and gives it back.
func shareMemory() error {
	const bytes = 16 << 20
	fd, err := unix.MemfdCreate("treerun-check", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, bytes); err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	b, err := unix.Mmap(fd, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	return os.NewSyscallError("munmap", unix.Munmap(b))
}
