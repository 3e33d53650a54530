//go:build linux

package fakegpu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/testutil"
)

// driver builds testdata/drive, a program in C that drives the fake driver
// through dlopen, once.
var driver = sync.OnceValues(func() (string, error) {
	files, err := filepath.Glob("testdata/drive/*.c")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "drive-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "drive")
	flags := []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program}
	out, err := exec.Command(compilers()[0], append(flags, files...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return program, err
})

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "panics":
		panics()
		return
	case "": // the tests
	default: // one of them, on a fake host
		os.Exit(m.Run())
	}
	code := m.Run()
	if program, err := driver(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// drive runs one test of the C program on a fresh dgx1v.
func drive(t *testing.T, test string, env ...string) { driveOn(t, "dgx1v", test, env...) }

// driveOn runs one test of the C program on a fresh host and returns its output.
func driveOn(t *testing.T, graph, test string, env ...string) string {
	t.Helper()
	testutil.Need(t, testutil.Compilers, Missing())
	program, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	h, err := Make(graph, "testdata/add.cu")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	cmd := exec.Command(program, test)
	cmd.Env = append(append(os.Environ(), h.Env()...), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Errorf("%s: %v\n%s", test, err, out)
	}
	return string(out)
}

const late = "TREERUN_FAKE_GPU_JITTER=300:1"

func TestOneProcess(t *testing.T) {
	for _, test := range []string{"devices", "addresses", "kernel", "order", "events", "values", "host-memory", "pointers",
		"free-waits", "peers", "modules", "misuse", "illegal", "whole", "idle"} {
		t.Run(test, func(t *testing.T) { drive(t, test) })
	}
	for _, test := range []string{"order", "disorder", "kernel"} {
		t.Run(test+" with late streams", func(t *testing.T) { drive(t, test, late) })
	}
}

func TestProcesses(t *testing.T) {
	for _, test := range []string{"ipc", "ipc-dead", "ipc-bad", "ipc-hidden", "ipc-block"} {
		t.Run(test, func(t *testing.T) { drive(t, test) })
	}
	t.Run("ipc with late streams", func(t *testing.T) { drive(t, "ipc", late) })
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ test, env string }{
		{"out-of-memory", "MEMORY=1048576"},
		{"third-allocation", "FAIL=cuMemAlloc:3,cuStreamSynchronize:1:719,cuMemsetD8Async:1:999@2,cuStreamSynchronize:2@7"},
		{"lost", "LOST=2@90"},
		{"corrupts", "BROKEN=1-2,3-0"},
		{"whole", "BROKEN=1-2,3-4:hang"},
		{"hangs", "BROKEN=0-3:hang"},
		{"no-operations", "NO_MEMOPS=1"},
		{"old-driver", "DRIVER=10020"},
		{"no-permission", "NO_PERMISSION=1"},
		{"slow", "SLOW=1000"},
		{"queues", "QUEUES=2"},
		{"depth", "DEPTH=4"},
		{"teardown", ""},
	} {
		t.Run(c.test+" "+c.env, func(t *testing.T) { drive(t, c.test, "TREERUN_FAKE_GPU_"+c.env) })
	}
	t.Run("without a fake host", func(t *testing.T) { drive(t, "not-asked-for", Variable+"=") })
	t.Run("visible", func(t *testing.T) { drive(t, "visible", "CUDA_VISIBLE_DEVICES=5,1,9,2") })
}

// TestTwoHosts: memory that one fake host exports cannot be opened on another.
func TestTwoHosts(t *testing.T) {
	testutil.Need(t, testutil.Compilers, Missing())
	program, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	here, there := Start(t, "dgx1v/0-3"), Start(t, "dgx1v/4-7")
	exporter := exec.Command(program, "export")
	exporter.Env = append(os.Environ(), here...)
	in, err := exporter.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exporter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Start(); err != nil {
		t.Fatal(err)
	}
	defer exporter.Wait()
	defer in.Close()
	handle, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for test, env := range map[string][]string{"import": here, "import-foreign": there} {
		importer := exec.Command(program, test)
		importer.Env = append(os.Environ(), env...)
		importer.Stdin = strings.NewReader(handle)
		if text, err := importer.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", test, err, text)
		}
	}
}

const roleVariable = "FAKE_GPU_TEST_ROLE"

// panics is a Go program with the fake driver in it, in which a bad access of Go's own is still a panic that can be
// recovered, and one of a kernel is not.
func panics() {
	devices, err := cuda.Devices()
	if err == nil {
		err = badKernel(devices[0])
	}
	fmt.Println("kernel:", err)
	defer func() { fmt.Println("recovered:", recover()) }()
	var nothing *int
	*nothing++
}

// badKernel copies from an unmapped address.
func badKernel(d *cuda.Device) error {
	set, err := kernels.Load(d, kernels.Copies)
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	to, err := cuda.Alloc[byte](d, 64)
	if err != nil {
		return err
	}
	bad := kernels.Part{To: []cuda.Addr{to.Addr()}, From: []cuda.Addr{4096}, Bytes: 64}
	if err := set.Run(s, nil, []kernels.Part{bad}); err != nil {
		return err
	}
	return s.Synchronize(context.Background())
}

// TestSignalsOfGo: the fake driver catches bad accesses of kernels, and leaves Go's to Go.
func TestSignalsOfGo(t *testing.T) {
	needCgo(t)
	env := Start(t, "dgx1v")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), env...), roleVariable+"=panics")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"CUDA_ERROR_ILLEGAL_ADDRESS (700)", "recovered: runtime error: invalid memory address"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, no %q in\n%s", err, want, out)
		}
	}
}

// needCgo skips a test that opens the driver if this build cannot.
func needCgo(t *testing.T) {
	t.Helper()
	if err := cuda.Open(); err != nil && strings.Contains(err.Error(), "CGO_ENABLED") {
		testutil.Need(t, testutil.GPU, errors.New("built without cgo"))
	}
}

// onHost runs the test that calls it again, in a process on a fake host, and reports whether this is that process.
func onHost(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(roleVariable) == t.Name() {
		return true
	}
	needCgo(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = slices.Concat(os.Environ(), Start(t, "dgx1v"), env, []string{roleVariable + "=" + t.Name()})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestCalls: calls are counted by name, and take the time that the environment sets.
func TestCalls(t *testing.T) {
	if !onHost(t, "TREERUN_FAKE_GPU_CALL_US=200") {
		return
	}
	devices, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	s, err := devices[0].NewStream()
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	before, began := Calls(t), time.Now()
	for range n {
		if _, err := s.Query(); err != nil {
			t.Fatal(err)
		}
	}
	took, after := time.Since(began), Calls(t)
	if got := after["cuStreamQuery"] - before["cuStreamQuery"]; got != n || after["cuInit"] != 1 {
		t.Errorf("%d queries, %d cuInit: want %d and 1", got, after["cuInit"], n)
	}
	if least := n * 200 * time.Microsecond; took < least {
		t.Errorf("%d calls took %v, less than %v", n, took, least)
	}
}

// TestCapture: a captured stream reports that, accepts work that is not executed, and refuses queries; so do its
// events.
func TestCapture(t *testing.T) {
	if !onHost(t) {
		return
	}
	devices, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	d := devices[0]
	s, err1 := d.NewStream()
	e, err2 := d.NewEvent(false)
	p, err3 := cuda.AllocPinned[byte](d, 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	p.Host()[0] = 3
	code := func(err error) int {
		var e *cuda.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return 0
	}
	first := s.Record(e)
	Capture(t, s.Handle())
	isolated := s.Wait(e)
	_, busy := s.Query()
	work := errors.Join(s.Memset(p.Addr(), 5, 1), s.Record(e))
	_, captured := e.Query()
	got := []int{code(first), code(s.CheckUncaptured()), code(isolated), code(busy), code(work), code(captured)}
	if want := []int{0, 900, 905, 900, 0, 907}; !slices.Equal(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
	Capture(t, 0)
	if err := errors.Join(s.CheckUncaptured(), s.Synchronize(t.Context())); err != nil || p.Host()[0] != 3 {
		t.Errorf("after the capture: %v, memory %d, want 3", err, p.Host()[0])
	}
}

func FuzzRanks(f *testing.F) {
	for _, s := range []string{"dgx1v", "dgx1v/0-3", "dgx1v/7", "dgx1v/3-1", "dgx1v/0-8", "/", "dgx1v/-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		g, err := load(name)
		if err != nil {
			return
		}
		if text := describe(g, 1); strings.Count(text, "\ngpu ") != g.Ranks || g.Ranks < 1 {
			t.Fatalf("%q:\n%s", name, text)
		}
	})
}
