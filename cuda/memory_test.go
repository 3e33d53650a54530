//go:build cgo && linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda/internal/driver"
)

func TestSlice(t *testing.T) {
	d := gpus(t, 1)[0]
	ctx := t.Context()
	s := stream(t, d)
	m := alloc[float64](t, d, 1000)
	if m.Len() != 1000 || m.Bytes() != 8000 || m.Device() != d || m.Addr() == 0 || m.Addr()%256 != 0 {
		t.Errorf("%d elements, %d bytes at %#x of %v", m.Len(), m.Bytes(), m.Addr(), m.Device())
	}
	want := make([]float64, 1000)
	for i := range want {
		want[i] = float64(i) * 1.5
	}
	must(t, m.CopyFrom(ctx, s, want))
	part := m.Slice(100, 350).Slice(50, 200) // 150 to 300
	if part.Len() != 150 || part.Addr() != m.Addr()+150*8 {
		t.Errorf("a part of a part: %d elements at +%d", part.Len(), part.Addr()-m.Addr())
	}
	got := make([]float64, 150)
	must(t, part.CopyTo(ctx, s, got))
	if !slices.Equal(got, want[150:300]) {
		t.Error("a part holds other elements than the whole at its place")
	}
	if e := m.Slice(1000, 1000); e.Len() != 0 || e.Addr() != 0 {
		t.Errorf("an empty part: %d elements at %#x", e.Len(), e.Addr())
	}
	wantError(t, part.CopyFrom(ctx, s, want), ErrOutOfRange, "150", "1000")
	for _, c := range [][2]int{{-1, 0}, {2, 1}, {0, 1001}, {1001, 1001}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Slice(%d, %d) of 1000 elements did not panic", c[0], c[1])
				}
			}()
			m.Slice(c[0], c[1])
		}()
	}
	var zero Slice[int8]
	if zero.Len() != 0 || zero.Addr() != 0 || zero.Device() != nil || zero.Check() != nil || zero.Free() != nil {
		t.Error("the zero Slice is not empty")
	}
	none, err := Alloc[int8](d, 0)
	if err != nil || none.Len() != 0 || none.Device() != d || none.Free() != nil || none.CopyFrom(ctx, s, nil) != nil {
		t.Errorf("no elements: %v, %v", none, err)
	}
}

// TestFreed: a caller that still has a Slice of freed memory gets an error.
func TestFreed(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	before := Stats()
	m, err := Alloc[int32](d, 10)
	must(t, err)
	if now := Stats(); now.Allocations != before.Allocations+1 || now.Bytes != before.Bytes+40 {
		t.Errorf("counts %+v after 40 bytes, before %+v", now, before)
	}
	part := m.Slice(3, 5)
	must(t, part.Check())
	must(t, m.Free())
	must(t, part.Free()) // nothing
	for _, f := range []Slice[int32]{m, part} {
		if f.Addr() != 0 {
			t.Error("freed memory has an address")
		}
		wantError(t, f.Check(), ErrFreed, d.UUID())
		wantError(t, f.CopyFrom(t.Context(), s, make([]int32, f.Len())), ErrFreed, "device memory")
		wantError(t, f.CopyTo(t.Context(), s, make([]int32, f.Len())), ErrFreed)
	}
	p, err := AllocPinned[byte](d, 10)
	must(t, err)
	must(t, p.Free())
	must(t, p.Free())
	if p.Host() != nil || p.Addr() != 0 {
		t.Error("freed pinned memory is still there")
	}
}

func TestWrap(t *testing.T) {
	list := gpus(t, 1)
	d := list[0]
	m := alloc[byte](t, d, 1000)
	host := pinned[byte](t, d, 64)
	stack := make([]uint32, 4)
	base := m.Addr()
	whole, err := Wrap[float32](d, base, 250)
	must(t, err)
	if whole.Addr() != base || whole.Bytes() != 1000 || whole.Free() != nil || m.Check() != nil {
		t.Errorf("wrapped: %d bytes at %#x", whole.Bytes(), whole.Addr())
	}
	_, err = Wrap[float32](d, base+996, 1)
	must(t, err)
	for _, c := range []struct {
		name string
		addr Addr
		n    int
		kind error
		word string
	}{
		{"one too many", base, 251, ErrOutOfRange, "1004"},
		{"beyond the end from inside", base + 996, 2, ErrOutOfRange, "4 bytes"},
		{"far too many", base, math.MaxInt, ErrOutOfRange, d.UUID()},
		{"negative", base, -1, ErrOutOfRange, "-1"},
		{"odd address", base + 2, 1, nil, "multiple of 4"},
		{"pinned memory", host.Addr(), 1, ErrNotDeviceMemory, "pinned"},
		{"Go's memory", Addr(addressOf(stack)), 1, ErrNotDeviceMemory, "host memory"},
		{"nothing", 64, 1, ErrNotDeviceMemory, "0x40"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Wrap[float32](d, c.addr, c.n)
			wantError(t, err, c.kind, c.word, d.UUID())
		})
	}
	if all, _ := Devices(); len(all) > 1 {
		_, err := Wrap[byte](all[1], base, 1)
		wantError(t, err, ErrWrongDevice, all[1].UUID(), "device 0")
	}
	must(t, m.Free())
	_, err = Wrap[byte](d, base, 1)
	wantError(t, err, ErrNotDeviceMemory)
}

// TestCopySizes copies every small size between the host, two places on the device and pinned memory, and checks the
// neighboring bytes.
func TestCopySizes(t *testing.T) {
	d := gpus(t, 1)[0]
	ctx := t.Context()
	s := stream(t, d)
	const room = 300
	a, b, p := alloc[byte](t, d, room), alloc[byte](t, d, room), pinned[byte](t, d, room)
	for n := 0; n <= 130; n++ {
		in, out := make([]byte, n), make([]byte, room)
		for i := range in {
			in[i] = byte(i*7 + n)
		}
		must(t, s.Memset(b.Addr(), 0xEE, room))
		must(t, a.Slice(3, 3+n).CopyFrom(ctx, s, in))
		must(t, s.Memcpy(b.Addr()+5, a.Addr()+3, int64(n)))
		must(t, s.Memcpy(p.Addr(), b.Addr(), room))
		must(t, b.CopyTo(ctx, s, out))
		for i, v := range out {
			want := byte(0xEE)
			if i >= 5 && i < 5+n {
				want = in[i-5]
			}
			if v != want || p.Host()[i] != want {
				t.Fatalf("%d bytes: byte %d is %#x, pinned %#x, want %#x", n, i, v, p.Host()[i], want)
			}
		}
	}
	wantError(t, s.Memcpy(b.Addr(), a.Addr(), -1), ErrOutOfRange)
	wantError(t, s.Memset(b.Addr(), 0, -1), ErrOutOfRange)
	beyond := s.Memcpy(b.Addr(), a.Addr(), 1<<40)
	wantError(t, beyond, nil, "cuMemcpyAsync",
		fmt.Sprintf("%d bytes from %#x to %#x", 1<<40, uint64(a.Addr()), uint64(b.Addr())), d.UUID(),
		"CUDA_ERROR_INVALID_VALUE (1)")
}

// TestOutOfMemory: a request for more memory than there is fails with an error that gives the size wanted, and nothing
// stays allocated.
func TestOutOfMemory(t *testing.T) {
	d := gpus(t, 1)[0]
	free, err := d.FreeMemory()
	must(t, err)
	before := Stats()
	_, err = Alloc[byte](d, int(d.TotalMemory())+1)
	wantError(t, err, ErrOutOfMemory, "cuMemAlloc", fmt.Sprint(d.TotalMemory()+1), d.UUID(),
		"CUDA_ERROR_OUT_OF_MEMORY (2)", "ranks per GPU")
	_, err = Alloc[float64](d, math.MaxInt/4)
	wantError(t, err, ErrOutOfRange, d.UUID())
	_, err = Alloc[float64](d, -1)
	wantError(t, err, ErrOutOfRange)
	_, err = AllocPinned[float64](d, 0)
	wantError(t, err, ErrOutOfRange)
	if after := Stats(); after != before {
		t.Errorf("counts %+v, before %+v", after, before)
	}
	if now, err := d.FreeMemory(); onFake() && (now != free || err != nil) {
		t.Errorf("%d bytes are free, before %d: %v", now, free, err)
	}
}

// TestCopyCanceled: a copy behind a stream that waits ends with its context,
// and nothing is copied.
func TestCopyCanceled(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	w := flag(t, d)
	m := alloc[uint32](t, d, 1<<10)
	must(t, m.CopyFrom(t.Context(), s, slices.Repeat([]uint32{7}, m.Len())))
	must(t, await(s, w.addr, 1))
	dst := make([]uint32, m.Len())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, m.CopyTo(ctx, s, dst), context.DeadlineExceeded, d.UUID())
	wantError(t, m.CopyFrom(ctx, s, dst), context.DeadlineExceeded, d.UUID())
	w.Store(1)
	must(t, s.Synchronize(t.Context()))
	if dst[0] != 0 {
		t.Error("a canceled copy was made")
	}
	must(t, m.CopyTo(t.Context(), s, dst))
	if dst[0] != 7 || dst[len(dst)-1] != 7 {
		t.Errorf("the memory holds %d and %d", dst[0], dst[len(dst)-1])
	}
}

// TestPoolIsNotExportable: memory of a pool is device memory like other, and
// cannot be handed to another process.
func TestPoolIsNotExportable(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	c, err := d.context()
	must(t, err)
	a, r := c.AllocPooled(s.handle, 4096)
	must(t, failed(d, "cuMemAllocAsync", "", r))
	m, err := Wrap[int32](d, a, 1024)
	must(t, err)
	want := []int32{1, -2, 3}
	must(t, m.Slice(0, 3).CopyFrom(t.Context(), s, want))
	_, _, _, _, err = d.ExportMemory(a + 8)
	wantError(t, err, ErrNotExportable, "pool", d.UUID())
	if r := c.FreePooled(s.handle, a); r != driver.Success {
		t.Error(failed(d, "cuMemFreeAsync", "", r))
	}
	must(t, s.Synchronize(t.Context()))
	host := pinned[byte](t, d, 1)
	_, _, _, _, err = d.ExportMemory(host.Addr())
	wantError(t, err, ErrNotExportable)
	_, _, _, _, err = d.ExportMemory(a)
	if onFake() {
		wantError(t, err, ErrNotDeviceMemory)
	}
}
