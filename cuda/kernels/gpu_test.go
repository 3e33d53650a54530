//go:build cgo && linux

package kernels_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

var realGPUs, _ = cuda.HostGPUs()

func TestMain(m *testing.M) {
	if realGPUs > 0 {
		os.Exit(m.Run())
	}
	fakegpu.Main(m, "dgx1v/0-1")
}

// gpu is a device with a stream and the kernels.
type gpu struct {
	*cuda.Device
	*kernels.Set
	stream *cuda.Stream
}

// first makes one of the first device, and checks at the end that nothing stays open.
func first(t testing.TB) gpu {
	t.Helper()
	if realGPUs == 0 {
		fakegpu.Need(t)
	}
	devices, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	g := gpu{Device: devices[0]}
	before := cuda.Stats()
	if g.stream, err = g.NewStream(); err != nil {
		t.Fatal(err)
	}
	if g.Set, err = kernels.Load(g.Device, everyFile()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for what, err := range map[string]error{"kernels": g.Set.Close(), "stream": g.stream.Close()} {
			if err != nil {
				t.Errorf("close the %s: %v", what, err)
			}
		}
		after := cuda.Stats()
		after.Contexts = before.Contexts // one stays as long as the device
		if after != before {
			t.Errorf("%+v are open, were %+v", after, before)
		}
	})
	return g
}

// everyFile returns the files of all kernels.
func everyFile() []string {
	files := []string{kernels.Copies, kernels.Blocks}
	for d := range kernel.DeviceDTypes {
		if file := kernels.Of(d); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// must ends the test where work could not be put into the stream.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// twin is memory that exists twice: on a device, where kernels change it, and on the host, where the test writes the
// expected result. To compare all of it shows writes outside the results, too.
type twin struct {
	device cuda.Slice[uint8]
	host   []byte
}

// newTwin makes a twin of the given number of bytes, filled with elements of type d.
func (g gpu) newTwin(t *testing.T, r *rand.Rand, d kernel.DType, bytes int) twin {
	t.Helper()
	w := twin{host: make([]byte, bytes)}
	fill(r, d, w.host)
	var err error
	if w.device, err = cuda.Alloc[uint8](g.Device, bytes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, w.device.Free()) })
	must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
	return w
}

// at returns the address of a byte.
func (w twin) at(offset int) cuda.Addr { return w.device.Addr() + cuda.Addr(offset) }

// compare waits for the work and compares all bytes.
func (g gpu) compare(t *testing.T, what string, w twin) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // against a hang
	defer cancel()
	got := make([]byte, len(w.host))
	must(t, w.device.CopyTo(ctx, g.stream, got))
	for i := range got {
		if got[i] != w.host[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(got), got[i], w.host[i])
		}
	}
}

// combine combines n elements at some addresses, into one address or more.
func (g gpu) combine(op kernel.Op, d kernel.DType, n int, to []cuda.Addr, from ...cuda.Addr) error {
	part := kernels.Part{To: to, From: from, Bytes: int64(n * d.Size())}
	return g.Run(g.stream, &kernel.Work{DType: d, Op: op}, []kernels.Part{part})
}

// TestGrid has launches get fewer blocks where they wait for a link, and as many as were measured to be best.
func TestGrid(t *testing.T) {
	g := first(t)
	all := uint32(8 * g.Multiprocessors())
	for _, c := range []struct {
		bytes int64
		where kernels.Where
		want  uint32
	}{
		{1 << 30, kernels.Own, all}, {1 << 30, kernels.Peer, 32}, {1 << 30, kernels.Host, 16},
		{1, kernels.Own, 1}, {8193, kernels.Peer, 2}, {8192, kernels.Host, 1}, {0, kernels.Own, 1},
	} {
		if got := kernels.Grid(g.Set, c.bytes, c.where); got != c.want {
			t.Errorf("%d bytes, memory %d: %d blocks, want %d", c.bytes, c.where, got, c.want)
		}
	}
	g.MaxBlocks[kernels.Peer] = 64
	if got := kernels.Grid(g.Set, 1<<30, kernels.Peer); got != 64 {
		t.Errorf("%d blocks, where a measurement wants 64", got)
	}
}
