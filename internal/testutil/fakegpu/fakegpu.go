//go:build linux

// Package fakegpu makes a host with GPUs out of this machine, for tests and for scripts/fake-gpu.sh: small C libraries
// replace the NVIDIA driver and NVML (libcuda.so.1, libnvidia-ml.so.1). Device memory is memory that processes share as
// with CUDA IPC, streams are threads, peers and links are those of a DGX-1V, and kernels run from the same .cu sources,
// compiled for the host. It needs a C and a C++ compiler and Linux. Programs use it only through their environment; the
// libraries do nothing without it, and identify themselves as fake. Only tests and scripts import this package.
//
// Faults are set through the environment too, host-wide or per process:
//
//	TREERUN_FAKE_GPU_MEMORY=BYTES        memory of every GPU; 256 MiB without it
//	TREERUN_FAKE_GPU_FAIL=CALL:N[:CODE][@GPU],...   the N-th CALL of a process fails, with
//	                                     "out of memory" or CODE; with @GPU only in its context
//	TREERUN_FAKE_GPU_BROKEN=A-B[:hang],...   copies and kernels over that link get wrong bits, or hang
//	TREERUN_FAKE_GPU_LOST=GPU@N,...      the GPU is lost after N calls with its context, of all processes
//	TREERUN_FAKE_GPU_NO_PEERS=1          no GPU reads another one's memory
//	TREERUN_FAKE_GPU_NO_NVLINK=1         their links are reported as PCIe
//	TREERUN_FAKE_GPU_NO_MEMOPS=1         no stream wait and write values
//	TREERUN_FAKE_GPU_DRIVER=10020        the version of the driver; 12040 without it
//	TREERUN_FAKE_GPU_NO_PERMISSION=1     device files cannot be opened
//	TREERUN_FAKE_GPU_JITTER=MICROSECONDS[:SEED]   operations of streams begin later, at random
//	TREERUN_FAKE_GPU_SLOW=FACTOR[:READS] copies between two GPUs take FACTOR times as long as at the
//	                                     rate of their link, and those that read READS times as
//	                                     long as those that write; without it no time is modeled
//	TREERUN_FAKE_GPU_CALL_US=MICROSECONDS   every call of the driver, except those that change the
//	                                     context, takes that much of its thread's time; Calls counts them
//	TREERUN_FAKE_GPU_QUEUES=N            the streams of a device, in turn, share N queues: a waiting one
//	                                     blocks the others in its queue
//	TREERUN_FAKE_GPU_DEPTH=N             a queue holds N operations; a call that finds it full waits, and
//	                                     with it all calls of the context
//	TREERUN_FAKE_GPU_TEARDOWN=BYTES      a process with a context maps and touches that much memory, so
//	                                     that the system takes long to end it
//	TREERUN_FAKE_GPU_COMPILE_MS=MILLISECONDS   loading PTX takes that long
//
// CUDA_VISIBLE_DEVICES works as with the real driver: memory of hidden GPUs can be opened through IPC. If the real
// driver does more than it promises, the fake one does less: fresh memory is not zero, the default stream waits for no
// other, host functions run one at a time, host memory is not device memory. A copy between two GPUs without peer
// access works, as with the real driver; a kernel's access does not.
package fakegpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Variable is the name of the environment variable with the folder of the fake host that a process runs on.
const Variable = "TREERUN_FAKE_GPU"

// Host is a fake host: a folder that describes its GPUs and that its processes share. Several hosts may exist at once;
// memory that one exports cannot be opened on another.
type Host struct {
	dir  string
	libs string // folder of the libraries
	gpus int
}

// Make makes a fake DGX-1V, or a host with some of its GPUs, as in "dgx1v/0-3". Its kernels are built from the given
// sources, by default from the repository's. The caller must Close it.
func Make(graph string, kernels ...string) (h *Host, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fake GPU: %w", err)
		}
	}()
	g, err := load(graph)
	if err != nil {
		return nil, err
	}
	libs, err := build(kernels)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fake-gpu-")
	if err != nil {
		return nil, err
	}
	h = &Host{dir: dir, libs: libs, gpus: g.Ranks}
	text := describe(g, rand.Uint64())
	if err := os.WriteFile(filepath.Join(dir, "topology"), []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Close removes the folder. Processes that still run on the host keep the files that they have open.
func (h *Host) Close() error { return os.RemoveAll(h.dir) }

// GPUs returns the number of GPUs.
func (h *Host) GPUs() int { return h.gpus }

// Env returns the variables that place a process on the host, to be added to its environment.
func (h *Host) Env() []string {
	path := h.libs
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return []string{Variable + "=" + h.dir, "LD_LIBRARY_PATH=" + path}
}

// Start makes a fake host for the duration of a test and returns the variables to add to the environment of its
// processes. It skips the test if there is no compiler.
func Start(t testing.TB, graph string) []string {
	t.Helper()
	testutil.Need(t, testutil.Compilers, Missing())
	h, err := Make(graph)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h.Env()
}

// callsFile returns the path of the driver's records of this process, a sequence of struct tally.
func callsFile() string { return filepath.Join(os.Getenv(Variable), fmt.Sprint("calls-", os.Getpid())) }

const tallyName, tallyBytes = 56, 64

// Calls returns how often this process, which runs on a fake host, has made each call of the driver so far.
func Calls(t testing.TB) map[string]int {
	t.Helper()
	text, err := os.ReadFile(callsFile())
	if err != nil {
		t.Fatal("the driver is not in use: ", err)
	}
	calls := map[string]int{}
	for ; len(text) >= tallyBytes && text[0] != 0; text = text[tallyBytes:] {
		calls[string(bytes.TrimRight(text[:tallyName], "\x00"))] = int(binary.LittleEndian.Uint64(text[tallyName:]))
	}
	return calls
}

// Capture makes the driver of this process treat a stream as being captured, until Capture is called with another
// handle, or 0: cuStreamIsCapturing reports it, work is discarded, and queries and events fail.
func Capture(t testing.TB, stream uintptr) {
	t.Helper()
	f, err := os.OpenFile(callsFile(), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(stream)), 127*tallyBytes+tallyName)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Missing returns the reason why no fake host can be made, nil if one can.
func Missing() error {
	for _, tool := range compilers() {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("the fake GPU's libraries cannot be built: %w; Debian has it in gcc and g++", err)
		}
	}
	return nil
}

// Main is the body of a TestMain whose tests open the driver in their own process. It runs the same test binary on a
// fake host, as the dynamic linker reads LD_LIBRARY_PATH only when a program starts; if there is no compiler, it runs
// the tests without a fake host, and Need skips those that need it. It does not return.
func Main(m *testing.M, graph string) {
	if os.Getenv(Variable) != "" || Missing() != nil {
		os.Exit(m.Run())
	}
	h, err := Make(graph)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM) // they end the tests, and then this process
	runtime.LockOSThread()
	tests := exec.Command("/proc/self/exe")
	tests.Args, tests.Env = os.Args, append(os.Environ(), h.Env()...)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(tests.Run(), h.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "fake GPU: the tests:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Need skips a test that does not run on a fake host although its TestMain calls Main.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		testutil.Need(t, testutil.Compilers, errors.Join(errors.New("not on a fake GPU host"), Missing()))
	}
}
