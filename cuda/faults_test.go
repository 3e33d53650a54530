//go:build cgo && linux

package cuda

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

func init() {
	roles["tour"] = func(*bufio.Scanner) error { return errors.Join(tour(), left()) }
	roles["open"] = func(*bufio.Scanner) error {
		if err := Open(); err != nil {
			return err
		}
		list, err := Devices()
		if err == nil {
			fmt.Println("memops:", list[0].TryStreamMemOps())
		}
		return err
	}
	roles["register"] = func(*bufio.Scanner) error { return errors.Join(registerTwice(), left()) }
	roles["lost"] = func(*bufio.Scanner) error { return errors.Join(work(), left()) }
}

// left returns an error that lists the resources a process has not given back.
func left() error {
	s := Stats()
	s.Contexts = 0
	if s != (Counts{}) {
		return fmt.Errorf("left open: %+v", s)
	}
	return nil
}

// tour makes one value of every kind, and gives all of them back even when something fails.
func tour() (err error) {
	list, err := Devices()
	if err != nil {
		return err
	}
	d := list[0]
	keep := func(end func() error) func() { return func() { err = errors.Join(err, end()) } }
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	defer keep(s.Close)()
	e, err := d.NewEvent(false)
	if err != nil {
		return err
	}
	defer keep(e.Close)()
	m, err := Alloc[float32](d, 1000)
	if err != nil {
		return err
	}
	defer keep(m.Free)()
	p, err := AllocPinned[float32](d, 1000)
	if err != nil {
		return err
	}
	defer keep(p.Free)()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer keep(func() error { return unix.Munmap(page) })()
	r, err := d.RegisterHost(page)
	if err != nil {
		return err
	}
	defer keep(r.Close)()
	ptx, err := os.ReadFile("testdata/fill.ptx")
	if err != nil {
		return err
	}
	code, err := d.Load(ptx)
	if err != nil {
		return err
	}
	defer keep(code.Close)()
	if _, err := d.FreeMemory(); err != nil {
		return err
	}
	if _, _, _, _, err := d.ExportMemory(m.Addr()); err != nil {
		return err
	}
	return errors.Join(s.Memset(m.Addr(), 1, 10), s.Memcpy(p.Addr(), m.Addr(), 10), s.Record(e), s.Wait(e),
		m.CopyFrom(context.Background(), s, p.Host()), m.CopyTo(context.Background(), s, p.Host()))
}

// TestEveryCallMayFail makes each call of the tour fail, the first time and,
// where there is one, the second time that it is made: the error names call,
// device and code, and nothing is left.
func TestEveryCallMayFail(t *testing.T) {
	needFake(t)
	d := gpus(t, 1)[0]
	if out := runRole(t, "tour"); out != "" {
		t.Fatalf("without a fault: %s", out)
	}
	for _, call := range []string{
		"cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc",
		"cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer:2", "cuMemHostRegister", "cuModuleLoadDataEx", "cuMemGetInfo",
		"cuPointerGetAttributes", "cuMemGetAddressRange", "cuIpcGetMemHandle", "cuMemsetD8Async",
		"cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamQuery",
		"cuStreamQuery:2",
	} {
		t.Run(call, func(t *testing.T) {
			name, n, _ := strings.Cut(call, ":")
			if n == "" {
				n = "1"
			}
			out := runRole(t, "tour", "TREERUN_FAKE_GPU_FAIL="+name+":"+n)
			for _, w := range []string{"error: ", name, "on device 0 (" + d.UUID() + ")", "CUDA_ERROR_OUT_OF_MEMORY (2)", "; "} {
				if !strings.Contains(out, w) {
					t.Errorf("%q does not say %q", out, w)
				}
			}
			if strings.Contains(out, "left open") || strings.Contains(out, "panic") {
				t.Error(out)
			}
		})
	}
}

// TestFailedRegistrationIsUndone: memory whose address on the device could not be
// had is not registered, and can be later.
func TestFailedRegistrationIsUndone(t *testing.T) {
	needFake(t)
	if out := runRole(t, "register", "TREERUN_FAKE_GPU_FAIL=cuMemHostGetDevicePointer:1"); out != "" {
		t.Error(out)
	}
}

func registerTwice() error {
	list, err := Devices()
	if err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if _, err := list[0].RegisterHost(page); !errors.Is(err, ErrOutOfMemory) {
		return fmt.Errorf("the first time: %v", err)
	}
	r, err := list[0].RegisterHost(page)
	if err != nil {
		return err
	}
	return errors.Join(r.Close(), unix.Munmap(page))
}

// TestNoUsableDriver: each reason for which the driver cannot be used has a text of its own.
func TestNoUsableDriver(t *testing.T) {
	needFake(t)
	for _, c := range []struct {
		name string
		env  []string
		want []string
	}{
		{"none installed", []string{"LD_LIBRARY_PATH="},
			[]string{"no usable CUDA driver", "libcuda.so.1: cannot open shared object", "no NVIDIA driver"}},
		{"too old", []string{"TREERUN_FAKE_GPU_DRIVER=10020"},
			[]string{"no usable CUDA driver", "CUDA 10.2", "CUDA 11.7 is needed", "newer"}},
		{"too old for streams that wait for memory", []string{"TREERUN_FAKE_GPU_DRIVER=11060"},
			[]string{"no usable CUDA driver", "CUDA 11.6", "CUDA 11.7 is needed (a driver from 515 on)"}},
		{"the toolkit's stub", []string{"TREERUN_FAKE_GPU="},
			[]string{"no usable CUDA driver", "cuDriverGetVersion", "(34)", "LD_LIBRARY_PATH"}},
		{"no permission", []string{"TREERUN_FAKE_GPU_NO_PERMISSION=1"},
			[]string{"no usable CUDA driver", "cuInit", "CUDA_ERROR_OPERATING_SYSTEM (304)", "rights on /dev/nvidia"}},
		{"no GPU visible", []string{"CUDA_VISIBLE_DEVICES="},
			[]string{"no usable CUDA driver", "CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := runRole(t, "open", c.env...)
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q does not say %q", out, w)
				}
			}
		})
	}
}

// TestMemOpsAreAbsent: the error of a system that refuses them differs from that of one where they could not be tried.
func TestMemOpsAreAbsent(t *testing.T) {
	needFake(t)
	for env, want := range map[string]string{
		"TREERUN_FAKE_GPU_DRIVER=12040":                      "memops: <nil>",
		"TREERUN_FAKE_GPU_DRIVER=11070":                      "memops: <nil>",
		"TREERUN_FAKE_GPU_NO_MEMOPS=1":                       "CUDA_ERROR_NOT_SUPPORTED",
		"TREERUN_FAKE_GPU_FAIL=cuStreamBatchMemOp:1:801":     "CUDA_ERROR_NOT_SUPPORTED",
		"TREERUN_FAKE_GPU_FAIL=cuStreamCreateWithPriority:1": "CUDA_ERROR_OUT_OF_MEMORY", // cannot be tried
	} {
		if out := runRole(t, "open", env); !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %s", env, out, want)
		}
	}
}

// work copies back and forth until something fails.
func work() (err error) {
	list, err := Devices()
	if err != nil {
		return err
	}
	d := list[2]
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := Alloc[byte](d, 4096)
	if err != nil {
		return err
	}
	defer m.Free()
	b := make([]byte, 4096)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err := errors.Join(m.CopyFrom(context.Background(), s, b), m.CopyTo(context.Background(), s, b)); err != nil {
			if errors.Is(err, ErrDeviceLost) {
				fmt.Println("it is ErrDeviceLost")
			}
			return err
		}
	}
	return nil
}

// TestGPULost: a GPU that goes away ends the work on it with an error that names this cause; closing the values that
// were open on it does not hang and leaves nothing.
func TestGPULost(t *testing.T) {
	needFake(t)
	list := gpus(t, 3)
	// On a host of its own: a lost GPU is lost for all.
	out := runRole(t, "lost", append(fakegpu.Start(t, "dgx1v"), "TREERUN_FAKE_GPU_LOST=2@100")...)
	for _, w := range []string{"it is ErrDeviceLost", "on device 2 (", "CUDA_ERROR_", "; "} {
		if !strings.Contains(out, w) {
			t.Errorf("%q does not say %q", out, w)
		}
	}
	if strings.Contains(out, "left open") {
		t.Error(out)
	}
	must(t, alloc[byte](t, list[2], 1).Check())
}

// TestForgotten: the collector closes values that nothing refers to any more.
func TestForgotten(t *testing.T) {
	d := gpus(t, 1)[0]
	// Only the counter of collected values stays different.
	defer live.collected.Store(live.collected.Load())
	before := Stats()
	func() {
		s, err := d.NewStream()
		must(t, err)
		e, err := d.NewEvent(true)
		must(t, err)
		m, err := Alloc[byte](d, 100)
		must(t, err)
		p, err := AllocPinned[byte](d, 100)
		must(t, err)
		must(t, s.Memset(m.Addr(), 0, 100))
		must(t, s.Record(e))
		must(t, s.Synchronize(t.Context()))
		part := m.Slice(10, 20)
		m = Slice[byte]{}
		runtime.GC()
		must(t, part.Check()) // a part keeps the whole
		runtime.KeepAlive(p)
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		now := Stats()
		collected := now.Collected - before.Collected
		now.Collected, now.Contexts = before.Collected, before.Contexts
		if now == before && collected == 4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, before %+v, %d collected", now, before, collected)
		}
	}
}

// TestNoAllocation: the calls for every chunk do not allocate.
func TestNoAllocation(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	e := event(t, d, false)
	m := alloc[uint32](t, d, 64)
	ops := []MemOp{{Addr: m.Addr(), Value: 1}, {Addr: m.Addr(), Value: 1, Wait: true}}
	if n := testing.AllocsPerRun(20, func() {
		err := s.Memset(m.Addr(), 0, 8)
		err = errors.Join(err, s.Memcpy(m.Addr()+128, m.Addr(), 64))
		err = errors.Join(err, write(s, m.Addr(), 1), await(s, m.Addr(), 1), s.MemOps(ops))
		err = errors.Join(err, s.Record(e), s.Wait(e))
		if _, q := s.Query(); err != nil || q != nil {
			t.Error(err, q)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	must(t, s.Synchronize(t.Context()))
}
