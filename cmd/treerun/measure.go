//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/check"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/rank"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/topo/probe"
)

// measureCommand is the name under which launch.RunSelf starts the ranks.
const measureCommand = "topo"

// measureGraph measures the links between the ranks of a job. If a rank fails, or a
// signal stops the job, the cause has been printed on standard error: the result
// is nil, and code is that of the job. Call it once per process, as launch.Run.
func measureGraph(j *launch.Job) (r *planner.Measured, code int, err error) {
	var text bytes.Buffer
	j.Doing = "measuring the links between " + numbers.Count(j.Size, "rank")
	code, err = launch.RunSelf(measureCommand, nil, j, &text)
	if err != nil || code != 0 {
		return nil, code, err
	}
	if r, err = parseMeasured(text.Bytes()); err != nil {
		return nil, 0, fmt.Errorf("measure the links: decode the result of rank 0: %w", err)
	}
	return r, 0, nil
}

func parseMeasured(data []byte) (*planner.Measured, error) {
	r := new(planner.Measured)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	if r.Graph == nil {
		return nil, errors.New("no graph")
	}
	if err := r.Graph.Validate(); err != nil {
		return nil, err
	}
	for i := range r.Hosts {
		if err := r.Hosts[i].Validate(); err != nil {
			return nil, fmt.Errorf("the GPUs of a host: %w", err)
		}
	}
	if r.Network != nil {
		return r, r.Network.Validate()
	}
	return r, nil
}

// measureRank takes part in a measureGraph as one rank; rank 0 writes the results to standard
// output. It takes no arguments.
func measureRank([]string) (int, error) {
	ctx := context.Background() // treerun ends ranks that are no longer needed
	world, err := rank.Init(ctx)
	if err == nil {
		err = errors.Join(measureOnRank(ctx, world, os.Stdout), world.Close())
	}
	if err != nil {
		return 0, fmt.Errorf("measure the links: %w", err)
	}
	return 0, nil
}

// measureOnRank measures as one rank of world.
func measureOnRank(ctx context.Context, world *rank.World, w io.Writer) (err error) {
	comm, err := collective.New(ctx, world)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, comm.Close()) }()
	graph := *comm.Graph()
	graph.Name = "measured"
	r := &planner.Measured{Graph: &graph}
	if b := comm.Between(); b != nil {
		r.Network, r.Unused = b.Network, b.Unused
	}
	if err := addGPUs(ctx, world, r); err != nil {
		return err
	}
	if world.Rank() == 0 {
		r.Graph = r.Graph.Canonical()
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return fmt.Errorf("write the graph: %w", err)
		}
	}
	return collective.Barrier(ctx, comm) // no rank leaves before all have their results
}

// addGPUs measures the GPUs of the ranks, if all have one, and replaces the graph by
// that of the GPUs.
func addGPUs(ctx context.Context, world *rank.World, r *planner.Measured) error {
	all, err := world.AllGather(ctx, []byte(world.Device()))
	if err != nil || slices.ContainsFunc(all, func(b []byte) bool { return len(b) == 0 }) {
		return err
	}
	dev, err := cuda.DeviceByUUID(world.Device())
	if err != nil {
		return fmt.Errorf("rank %d: %w", world.Rank(), err)
	}
	o := peers.Options{Anew: true}
	if cache, err := probe.UserCache(); err == nil { // otherwise results are not cached
		o.Cache = &cache
	}
	if r.Hosts, err = peers.Measure(ctx, world, dev, o); err == nil {
		r.Graph, err = peers.Join(r.Graph, r.Hosts, false)
	}
	return err
}

// thisHost returns this host for package check.
func thisHost() *check.System {
	return &check.System{
		Devices: cudaDevices, Machine: nvml.Read, Kernel: cuda.HostGPUs, Peers: measurePeers, Limits: readLimits,
		Network: iface.Read, MPS: runsMPS(),
	}
}

// runsMPS reports whether programs of this environment find the daemon of the CUDA Multi-Process Service.
func runsMPS() bool {
	_, err := os.Stat(filepath.Join(cmp.Or(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps"), "control"))
	return err == nil
}

func cudaDevices() (version string, devices check.Devices, err error) {
	devices = make(check.Devices)
	var all []*cuda.Device
	if version, err = cuda.DriverVersion(); err == nil {
		all, err = cuda.Devices()
	}
	for _, d := range all {
		devices[d.UUID()] = d.TryStreamMemOps()
		err = errors.Join(err, d.Close()) // ranks may want all of its memory
	}
	return version, devices, err
}

// measurePeers measures with a rank on every GPU, with two if there is only one GPU.
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
		return nil, errors.New("ranks on the GPUs have returned no result")
	}
	return &r.Hosts[0], nil
}

// readLimits reads the limits of the system.
func readLimits() check.Limits {
	l := check.Limits{Locked: math.MaxUint64, Processes: math.MaxUint64, Addresses: limit(unix.RLIMIT_AS).Cur,
		Cores: runtime.NumCPU(), Usable: job.UsableCores(), DevShm: -1,
		Shared: trySharedMemory()}
	if os.Geteuid() != 0 { // root may lock and start any number
		l.Locked, l.Processes = limit(unix.RLIMIT_MEMLOCK).Cur, limit(unix.RLIMIT_NPROC).Cur
	}
	files := limit(unix.RLIMIT_NOFILE)
	l.Files, l.MaxFiles = files.Cur, files.Max
	var s unix.Statfs_t
	if unix.Statfs("/dev/shm", &s) == nil {
		l.DevShm = int64(s.Blocks) * s.Bsize
	}
	return l
}

// limit returns a limit of this process.
func limit(resource int) (r unix.Rlimit) {
	_ = unix.Getrlimit(resource, &r) // never fails for an existing resource
	return r
}

// trySharedMemory allocates some shared memory as jobs do, and releases it.
func trySharedMemory() error {
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
