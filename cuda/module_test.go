//go:build cgo && linux

package cuda

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

func init() {
	roles["launch"] = func(*bufio.Scanner) error { return errors.Join(launch(), left()) }
}

// TestLaunch loads PTX and runs its kernel, on a fake host of its own which has
// that kernel, or on a real GPU.
func TestLaunch(t *testing.T) {
	gpus(t, 1)
	var env []string
	if onFake() {
		h, err := fakegpu.Make("dgx1v/0-1", "testdata/fill.cu")
		must(t, err)
		closed(t, func() error { return h.Close() })
		env = h.Env()
	}
	if out := runRole(t, "launch", env...); out != "" {
		t.Error(out)
	}
}

// launch fills memory by several grids, and checks the neighboring words.
func launch() (err error) {
	list, err := Devices()
	if err != nil {
		return err
	}
	d := list[0]
	keep := func(end func() error) func() { return func() { err = errors.Join(err, end()) } }
	ptx, err := os.ReadFile("testdata/fill.ptx")
	if err != nil {
		return err
	}
	code, err := d.Load(ptx)
	if err != nil {
		return err
	}
	defer keep(code.Close)()
	fill, err := code.Kernel("fill")
	if err != nil {
		return err
	}
	if fill.name != "fill" || code.Device() != d {
		return fmt.Errorf("kernel %q of %v", fill.name, code.Device())
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	defer keep(s.Close)()
	const n = 5000
	m, err := Alloc[uint32](d, n)
	if err != nil {
		return err
	}
	defer keep(m.Free)()
	for i, grid := range [][2]uint32{{1, 1}, {1, 32}, {3, 64}, {40, 256}} {
		first, count, value := 7*i, 1000*(i+1), uint32(0xABC000+i)
		args := binary.LittleEndian.AppendUint64(nil, uint64(m.Slice(first, n).Addr()))
		args = binary.LittleEndian.AppendUint32(args, uint32(count))
		args = binary.LittleEndian.AppendUint32(args, value)
		if err := errors.Join(s.Memset(m.Addr(), 0, m.Bytes()), s.Launch(fill, grid[0], grid[1], args)); err != nil {
			return err
		}
		clear(args) // they were copied
		got := make([]uint32, n)
		if err := m.CopyTo(context.Background(), s, got); err != nil {
			return err
		}
		for j, v := range got {
			want := uint32(0)
			if j >= first && j < first+count {
				want = value
			}
			if v != want {
				return fmt.Errorf("grid %v: word %d is %#x, want %#x", grid, j, v, want)
			}
		}
	}
	return errors.Join(launchElsewhere(list, fill), refused(d, s, code, fill))
}

// refused makes the calls that must fail.
func refused(d *Device, s *Stream, code *Module, fill *Kernel) error {
	var all error
	want := func(err error, words ...string) {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				all = errors.Join(all, fmt.Errorf("error %v does not say %q", err, w))
			}
		}
	}
	_, err := code.Kernel("none")
	want(err, "cuModuleGetFunction of none", d.UUID(), "CUDA_ERROR_NOT_FOUND (500)")
	want(s.Launch(fill, 1, 1<<20, make([]byte, 16)), "cuLaunchKernel of fill with 1 blocks of 1048576 threads", d.UUID())
	want(s.Launch(fill, 1, 1, make([]byte, 5000)), "5000 bytes of arguments, at most 4096")
	for _, bad := range []string{"", "not PTX\x00", "nonsense"} {
		_, err := d.Load([]byte(bad))
		want(err, d.UUID())
	}
	_, err = d.Load([]byte(".version 99.0\n.target sm_70\n.address_size 64\n"))
	want(err, "cuModuleLoadDataEx (", "99.0", "CUDA_ERROR_")
	if err := code.Close(); err != nil {
		return err
	}
	_, err = code.Kernel("fill")
	want(err, "module", "closed")
	want(s.Launch(fill, 1, 1, make([]byte, 16)), "module", "closed")
	return all
}

// launchElsewhere tries a kernel on another device than its own.
func launchElsewhere(list []*Device, fill *Kernel) error {
	if len(list) < 2 {
		return nil
	}
	s, err := list[1].NewStream()
	if err != nil {
		return err
	}
	err = s.Launch(fill, 1, 1, make([]byte, 16))
	if !errors.Is(err, ErrWrongDevice) {
		return fmt.Errorf("a kernel on another device: %v", errors.Join(err, s.Close()))
	}
	return s.Close()
}
