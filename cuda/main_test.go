//go:build cgo && linux

package cuda

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// The tests run on a fake host like a DGX-1V, whose streams work late at random, so that work without an order shows.
// On a machine with a driver, TREERUN_TEST_GPU=real runs them on its GPUs; tests that need the fake host are then left
// out.
const (
	roleVariable = "TREERUN_CUDA_TEST_ROLE"
	jitter       = "TREERUN_FAKE_GPU_JITTER=300:1"
)

// roles are the functions that other processes of a test run: they take lines from the test and return some.
var roles = map[string]func(in *bufio.Scanner) error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](bufio.NewScanner(os.Stdin)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if fakegpu.Real() {
		os.Exit(m.Run())
	}
	name, value, _ := strings.Cut(jitter, "=")
	os.Setenv(name, value)
	fakegpu.Main(m, "dgx1v")
}

func onFake() bool { return os.Getenv(fakegpu.Variable) != "" }

// needFake skips a test that only the fake host supports.
func needFake(t testing.TB) {
	t.Helper()
	if !onFake() && fakegpu.Real() {
		testutil.Need(t, testutil.Compilers, errors.New("the tests run on real GPUs"))
	}
	fakegpu.Need(t)
}

// gpus returns n devices, and checks at the end of the test that it left nothing
// open on them.
func gpus(t testing.TB, n int) []*Device {
	t.Helper()
	if !fakegpu.Real() {
		fakegpu.Need(t)
	}
	list, err := Devices()
	if err == nil && len(list) < n {
		err = fmt.Errorf("%d GPUs, the test needs %d", len(list), n)
	}
	testutil.Need(t, testutil.GPU, err)
	before := Stats()
	before.Contexts = 0
	t.Cleanup(func() {
		after := Stats()
		after.Contexts = 0
		if after != before {
			t.Errorf("open before %+v\nand after %+v", before, after)
		}
	})
	return list[:n]
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closed closes something at the end of the test. The function must refer to all of it: a method value of a part, such
// as s.Close, would leave the rest to the collector, which closes it, too.
func closed(t testing.TB, end func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func stream(t testing.TB, d *Device) *Stream {
	t.Helper()
	s, err := d.NewStream()
	must(t, err)
	closed(t, func() error { return s.Close() })
	return s
}

func alloc[T Number](t testing.TB, d *Device, n int) Slice[T] {
	t.Helper()
	s, err := Alloc[T](d, n)
	must(t, err)
	closed(t, func() error { return s.Free() })
	return s
}

func pinned[T Number](t testing.TB, d *Device, n int) *Pinned[T] {
	t.Helper()
	p, err := AllocPinned[T](d, n)
	must(t, err)
	closed(t, func() error { return p.Free() })
	return p
}

// word is a 32-bit word of pinned or registered memory.
type word struct {
	*atomic.Uint32
	addr Addr
}

// wordsOf returns the words of pinned memory, set to 0.
func wordsOf(p *Pinned[uint32]) []word {
	var all []word
	for i := range p.Host() {
		all = append(all, wordAt(&p.Host()[i], p.Addr()+Addr(4*i)))
		all[i].Store(0)
	}
	return all
}

// flag returns a word of memory that is freed at the end of the test.
func flag(t testing.TB, d *Device) word {
	t.Helper()
	return wordsOf(pinned[uint32](t, d, 1))[0]
}

// wantError checks an error's kind and some words of it.
func wantError(t testing.TB, err, kind error, words ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// process is another process of a test, in a role.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startRole starts this test binary in a role, with more environment.
func startRole(t testing.TB, role string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	p := &process{Cmd: exec.Command(self)}
	p.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	p.Stderr = os.Stderr
	p.in, err = p.StdinPipe()
	must(t, err)
	out, err := p.StdoutPipe()
	must(t, err)
	p.out = bufio.NewScanner(out)
	must(t, p.Start())
	t.Cleanup(func() {
		p.in.Close()
		p.Process.Kill()
		p.Wait()
	})
	return p
}

// ask sends a line and returns the line of the reply.
func (p *process) ask(t testing.TB, format string, args ...any) string {
	t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
	return p.line(t)
}

func (p *process) line(t testing.TB) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the other process has ended: %v", p.out.Err())
	}
	return p.out.Text()
}

// runRole runs a role to its end and returns all of its output.
func runRole(t testing.TB, role string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	timer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%s: %v\n%s", role, err, out.String())
	}
	return out.String()
}

// write and await put one operation of MemOps into a stream.
func write(s *Stream, a Addr, v uint32) error { return s.MemOps([]MemOp{{Addr: a, Value: v}}) }

func await(s *Stream, a Addr, v uint32) error {
	return s.MemOps([]MemOp{{Addr: a, Value: v, Wait: true}})
}
