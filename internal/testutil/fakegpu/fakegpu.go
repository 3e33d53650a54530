// Package fakegpu makes a host with GPUs out of this machine, for tests and for
// scripts/fake-gpu.sh: small C libraries stand in for the NVIDIA driver and for
// NVML (libcuda.so.1, libnvidia-ml.so.1). Device memory is memory that processes
// share as CUDA IPC shares it, streams are threads, peers and links are those of
// a graph, and kernels are run from the same .cu sources, compiled for the host.
// It needs a C and a C++ compiler and Linux. Programs come under it through their
// environment only; the libraries do nothing without it and say that they are
// fake. Only tests and scripts import this package.
//
// Faults come through the environment too, host-wide or per process:
//
//	TREERUN_FAKE_GPU_MEMORY=BYTES        memory of every GPU; 256 MiB without it
//	TREERUN_FAKE_GPU_FAIL=CALL:N[:CODE][@GPU],...   the N-th CALL of a process fails, with
//	                                     "out of memory" or CODE; with @GPU only in its context
//	TREERUN_FAKE_GPU_BROKEN=A-B[:hang],...   copies and kernels over that link get wrong bits, or hang
//	TREERUN_FAKE_GPU_LOST=GPU@N,...      the GPU is lost after N calls with its context, of all processes
//	TREERUN_FAKE_GPU_NO_MEMOPS=1         no stream wait and write values
//	TREERUN_FAKE_GPU_DRIVER=10020        the version of the driver; 12040 without it
//	TREERUN_FAKE_GPU_NO_PERMISSION=1     device files cannot be opened
//	TREERUN_FAKE_GPU_JITTER=MICROSECONDS[:SEED]   operations of streams begin later, at random
//	TREERUN_FAKE_GPU_SLOW=FACTOR         copies between two GPUs take FACTOR times as long as the
//	                                     rate of their link says; without it no time is modelled
//
// CUDA_VISIBLE_DEVICES works as with the real driver. Where the real driver
// promises less than it does, the fake one does less: fresh memory is not zero,
// the default stream waits for no other, host functions run one at a time, host
// memory is not device memory. A copy between two GPUs without peer access works,
// as with the real driver; a kernel's access does not.
package fakegpu

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Variable holds the folder of the fake host that a process runs on.
const Variable = "TREERUN_FAKE_GPU"

// Host is a fake host: a folder that says which GPUs there are, and that its
// processes share. Several stand beside each other; memory that one exports
// cannot be opened on another.
type Host struct {
	dir  string
	libs string // their folder
	gpus int
}

// Options say what a fake host is like.
type Options struct {
	// Graph is the name of a graph of topo/machines or a file in the graph format,
	// with the ranks to take behind a slash, such as "dgx1v/0-3"; they must be on one
	// host. Without them the first host's are taken.
	Graph string
	// Kernels are the sources to build kernels from, instead of the repository's.
	Kernels []string
}

// Make makes a fake host; the caller must Close it.
func Make(o Options) (*Host, error) {
	g, err := load(o.Graph)
	if err != nil {
		return nil, fmt.Errorf("fake GPU: %w", err)
	}
	libs, err := build(o.Kernels)
	if err != nil {
		return nil, fmt.Errorf("fake GPU: %w", err)
	}
	dir, err := os.MkdirTemp("", "fake-gpu-")
	if err != nil {
		return nil, fmt.Errorf("fake GPU: %w", err)
	}
	h := &Host{dir: dir, libs: libs, gpus: g.Ranks}
	var nonce [8]byte
	rand.Read(nonce[:])
	text, err := describe(g, binary.LittleEndian.Uint64(nonce[:]))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "topology"), []byte(text), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fake GPU: %w", err), h.Close())
	}
	return h, nil
}

// Close removes the folder. Processes that still run on the host keep what they
// have.
func (h *Host) Close() error { return os.RemoveAll(h.dir) }

// GPUs returns how many there are.
func (h *Host) GPUs() int { return h.gpus }

// Env returns the variables that bring a process onto the host, to be added to
// its environment.
func (h *Host) Env() []string {
	path := h.libs
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return []string{Variable + "=" + h.dir, "LD_LIBRARY_PATH=" + path}
}

// Start makes a fake host for the length of a test and returns the variables to
// add to the environment of its processes. It skips the test where there is no
// compiler.
func Start(t testing.TB, graph string) []string {
	t.Helper()
	testutil.Need(t, testutil.Compilers, Missing())
	h, err := Make(Options{Graph: graph})
	if err != nil {
		t.Fatal(err)
	}
	open, err := guard(h.dir)
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), open.Close()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return h.Env()
}

// Missing tells why no fake host can be made, nil if one can.
func Missing() error {
	for _, tool := range compilers() {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("the fake GPU's libraries cannot be built: %w; Debian has it in gcc and g++", err)
		}
	}
	return nil
}

// Main is the body of a TestMain whose tests open the driver in their own
// process. It becomes the same test binary on a fake host and runs the tests
// there; where there is no compiler it runs them without, and Need skips those
// that want it. It does not return.
func Main(m *testing.M, graph string) {
	dir := os.Getenv(Variable)
	if dir == "" && Missing() == nil {
		h, err := Make(Options{Graph: graph})
		if err == nil {
			err = reexec(h)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Need skips a test that is not on a fake host though its TestMain calls Main.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		testutil.Need(t, testutil.Compilers, errors.Join(errors.New("not on a fake GPU host"), Missing()))
	}
}

// reexec replaces this process by the same program on the host; the dynamic
// linker looks at LD_LIBRARY_PATH only when a program starts.
func reexec(h *Host) error {
	open, err := guard(h.dir)
	if err == nil {
		_, _, no := syscall.Syscall(syscall.SYS_FCNTL, open.Fd(), syscall.F_SETFD, 0) // the program keeps it
		if no != 0 {
			err = os.NewSyscallError("fcntl", no)
		}
	}
	var self string
	if err == nil {
		self, err = os.Executable()
	}
	if err == nil {
		err = syscall.Exec(self, os.Args, append(os.Environ(), h.Env()...))
	}
	return errors.Join(fmt.Errorf("fake GPU: start the tests again on the fake host: %w", err), h.Close())
}

// guard starts a shell that removes a folder when the returned file is closed
// everywhere: at the end of all processes that have it, however they end.
// The shell is nobody's child.
func guard(dir string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("fake GPU: %w", err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", `exec 3<&0
		{ trap '' INT QUIT TERM HUP; cat <&3; rm -rf "$0"; } > /dev/null 2>&1 &`, dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends the tests' group does not end it
	if err := cmd.Run(); err != nil {
		return w, fmt.Errorf("fake GPU: start a guard of %s: %w", dir, err)
	}
	return w, nil
}
