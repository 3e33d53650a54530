//go:build cgo && linux

package kernels_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// Tests whose names begin with TestProbe, here and in package cuda, measure the time that a GPU and its driver take for
// the parts of which device calls are made. Their figures are attributes of the tests, which scripts/gpu-check.sh
// collects:
//
//	go test ./cuda ./cuda/kernels -run Probe -json | grep '"attr"'
//
// A fake GPU's mean nothing. Only wrong data and calls that hang make them fail.

// repeated is the number of repetitions of a probe.
func repeated() int {
	if os.Getenv(fakegpu.Variable) != "" {
		return 2
	}
	return 20
}

// median returns the median of some times, each of n things, in microseconds per thing.
func median(times []time.Duration, n int) string {
	slices.Sort(times)
	return fmt.Sprintf("%.2f us", float64(times[len(times)/2].Nanoseconds())/1e3/float64(n))
}

// TestProbeCalls: the host's time for a call that puts work into a stream, and the device's time for the work, a
// hundred in a row.
func TestProbeCalls(t *testing.T) {
	const inARow = 100
	g := first(t)
	words, err := cuda.AllocPinned[uint32](g.Device, 16)
	must(t, err)
	defer func() { must(t, words.Free()) }()
	bytes, err := cuda.Alloc[uint8](g.Device, 256)
	must(t, err)
	defer func() { must(t, bytes.Free()) }()
	from, to := bytes.Addr(), bytes.Addr()+128
	e, err := g.NewEvent(false)
	must(t, err)
	defer e.Close()
	clear(words.Host())
	batch := func(n int, wait bool) func() error { // of waits that are fulfilled, or of writes
		ops := make([]cuda.MemOp, n)
		for i := range ops {
			ops[i] = cuda.MemOp{Addr: words.Addr() + cuda.Addr(4*i+4), Wait: wait}
		}
		return func() error { return g.stream.MemOps(ops) }
	}
	gate, round := &words.Host()[0], uint32(0)
	for _, p := range []struct {
		name string
		call func() error
	}{
		{"launch", func() error { return g.combine(0, kernel.Uint8, 1, []cuda.Addr{to}, from) }},
		{"event", func() error { return g.stream.Record(e) }},
		{"copy", func() error { return g.stream.Memcpy(to, from, 64) }},
		{"wait", batch(1, true)}, {"waits-7", batch(7, true)}, {"waits-14", batch(14, true)},
		{"write", batch(1, false)}, {"writes-7", batch(7, false)}, {"writes-14", batch(14, false)},
	} {
		t.Run(p.name, func(t *testing.T) {
			var host, device []time.Duration
			for range repeated() {
				round++
				// The stream begins when all calls were made, or after a second: it may be full.
				must(t, g.stream.MemOps([]cuda.MemOp{{Addr: words.Addr(), Value: round, Wait: true}}))
				limit := time.AfterFunc(time.Second, func() { atomic.StoreUint32(gate, round) })
				device = append(device, g.timed(t, func() {
					began := time.Now()
					for range inARow {
						must(t, p.call())
					}
					host = append(host, time.Since(began))
				}, func() { limit.Stop(); atomic.StoreUint32(gate, round) }))
			}
			t.Attr("host", median(host, inARow))
			t.Attr("device", median(device, inARow))
		})
	}
}

// timed returns the device's time for the work that put puts into the stream and that begin releases.
func (g gpu) timed(t *testing.T, put, begin func()) time.Duration {
	t.Helper()
	var e [2]*cuda.Event
	for i := range e {
		var err error
		e[i], err = g.NewEvent(true)
		must(t, err)
		defer e[i].Close()
	}
	must(t, g.stream.Record(e[0]))
	put()
	must(t, g.stream.Record(e[1]))
	begin()
	must(t, g.stream.Synchronize(t.Context()))
	d, err := e[1].Since(e[0])
	must(t, err)
	return d
}

// TestProbeLoad: the time that a process waits for a context, and for each file of kernels: the driver compiles it, or
// finds it in its cache.
func TestProbeLoad(t *testing.T) {
	const variable = "TREERUN_TEST_LOAD"
	if name := os.Getenv(variable); name != "" {
		load(t, name)
		return
	}
	if realGPUs == 0 {
		fakegpu.Need(t)
	}
	cache := "CUDA_CACHE_PATH=" + t.TempDir()
	for _, c := range [][2]string{{"without-cache", "CUDA_CACHE_DISABLE=1"}, {"cold", cache}, {"warm", cache}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProbeLoad$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+c[0], c[1])
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v\n%s", c[0], err, out)
		must(t, err)
	}
}

func load(t *testing.T, name string) {
	devices, err := cuda.Devices()
	must(t, err)
	took := func(what string, f func() error) {
		began := time.Now()
		must(t, f())
		t.Attr(name+"-"+what, fmt.Sprintf("%.1f ms", float64(time.Since(began).Microseconds())/1e3))
	}
	took("context", func() error { _, err := devices[0].FreeMemory(); return err })
	for _, file := range everyFile() {
		var set *kernels.Set
		took(file, func() (err error) { set, err = kernels.Load(devices[0], file); return err })
		must(t, set.Close())
	}
}
