//go:build linux

package stacks

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// folder has the programs that the tests build.
var folder string

// helper is the argument of a process of these tests that another user has.
const helper = "of-the-parent"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, helper) { // another user, who may write nowhere
		os.Exit(m.Run())
	}
	var err error
	if folder, err = os.MkdirTemp("", "stacks"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// builds are the ways to build the program of the tests. Each is built once. Some have C.
var builds = map[string]func() (string, error){
	"cgo":      build("cgo", "1", "-ldflags=-w"),
	"pie":      build("pie", "1", "-buildmode=pie"),
	"race":     build("race", "1", "-race"),
	"pure":     build("pure", "0", "-v"),
	"stripped": build("stripped", "0", "-ldflags=-s"),
	"arm64":    build("arm64", "0", "-v"),
}

func build(name, cgo, flag string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		file := filepath.Join(folder, name)
		cmd := exec.Command("go", "build", "-buildvcs=false", flag, "-o", file, "./testdata/waits")
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if name == "arm64" {
			cmd.Env = append(cmd.Env, "GOARCH=arm64")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
		return file, nil
	})
}

// withC returns the reason that programs with C cannot be built here.
var withC = sync.OnceValue(func() error {
	out, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err == nil && strings.TrimSpace(string(out)) != "1" {
		err = errors.New("go env CGO_ENABLED is not 1")
	}
	return err
})

func built(t testing.TB, name string) string {
	t.Helper()
	if slices.Contains([]string{"cgo", "pie", "race"}, name) {
		testutil.Need(t, testutil.Compilers, withC())
	}
	file, err := builds[name]()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// start starts the program of the tests, and returns its process and the stack that it has printed before it waits.
func start(t testing.TB, file, way string) (process *os.Process, want []string) {
	t.Helper()
	cmd := exec.Command(file, way)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process, strings.Split(strings.TrimSuffix(line, "|\n"), "|")
}

// lines returns the frames of a goroutine that belong to the program, as the program prints them.
func lines(g *Goroutine) (all []string) {
	for _, f := range g.Frames {
		if strings.HasPrefix(f.Function, "main.") && f.File != "_cgo_gotypes.go" {
			all = append(all, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
		}
	}
	return all
}

// await reads the stacks of a process until they are right.
func await(t *testing.T, process *os.Process, right func(Stacks) error) {
	t.Helper()
	var r Reader
	var last error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s, err := r.Read(process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if last = right(s); last == nil {
			return
		}
		last = fmt.Errorf("%w\n%v", last, s)
	}
	t.Fatal(last)
}

// first returns an error unless goroutine 1 has a status, the frames and a complete stack.
func first(status string, want []string) func(Stacks) error {
	return func(s Stacks) error {
		i := slices.IndexFunc(s.Goroutines, func(g Goroutine) bool { return g.ID == 1 })
		if i < 0 {
			return errors.New("there is no goroutine 1")
		}
		g := &s.Goroutines[i]
		if got := lines(g); g.Partial || !strings.Contains(status, g.Status) || !slices.Equal(got, want) {
			return fmt.Errorf("goroutine 1 is %q at\n%q, want %q at\n%q", g.Status, got, status, want)
		}
		g, f := s.Where()
		if at := want[0]; g == nil || g.ID != 1 || f == nil || !strings.HasPrefix(at, f.Function) {
			return fmt.Errorf("the line of the process is %v, want %s", f, at)
		}
		return nil
	}
}

// TestWaits: processes that wait in every way, built in every way.
func TestWaits(t *testing.T) {
	for name := range builds {
		// Some compile the standard library again, and one is for another machine.
		if (name == "race" || name == "pie") && !testutil.Thorough() || name == "arm64" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			file := built(t, name)
			for way, status := range map[string]string{"channel": "chan receive", "mutex": "sync.Mutex.Lock",
				"sleep": "sleep", "pipe": "syscall", "raw": "running", "inlined": "chan receive", "panic": "chan receive",
				"c": "syscall", "cspin": "syscall", "callback": "chan receive"} {
				if (name == "pure" || name == "stripped") && slices.Contains([]string{"c", "cspin", "callback"}, way) {
					continue
				}
				t.Run(way, func(t *testing.T) {
					process, want := start(t, file, way)
					await(t, process, first(status, want))
				})
			}
		})
	}
}

// TestStopped: processes that are stopped while they run, at any instruction. A stack is right, or it is missing: in a
// handler of signals, of which Go's scheduler sends many, and in C on the stack of the thread.
func TestStopped(t *testing.T) {
	for _, way := range []string{"calls", "spin", "clock", "alloc", "cspin"} {
		t.Run(way, func(t *testing.T) {
			process, want := start(t, built(t, "cgo"), way)
			rounds, missing := testutil.Count(20, 200), 0
			for range rounds {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				signal(t, process, syscall.SIGSTOP)
				var g *Goroutine
				var r Reader // finds the goroutines again
				for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Microsecond) {
					s, err := r.Read(process.Pid)
					if err != nil {
						t.Fatal(err)
					}
					if g = &s.Goroutines[0]; !g.OnCPU {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("a stopped process is not stopped: %v", g)
					}
				}
				signal(t, process, syscall.SIGCONT)
				switch {
				case g.Note != "" || g.Partial:
					missing++
					t.Logf("%v", g)
				case len(lines(g)) > len(want): // it is still in announce
				case !slices.Equal(lines(g), want):
					t.Fatalf("the stack is wrong, want %q:\n%v", want, g)
				}
			}
			if t.Logf("%d of %d stacks are missing", missing, rounds); missing > rounds/2 {
				t.Fail()
			}
		})
	}
}

func signal(t *testing.T, process *os.Process, s syscall.Signal) {
	t.Helper()
	if err := process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestRuns: a goroutine that runs on a CPU has no frames.
func TestRuns(t *testing.T) {
	process, _ := start(t, built(t, "pure"), "spin")
	await(t, process, func(s Stacks) error {
		g, f := s.Where()
		if g == nil || g.ID != 1 || !g.OnCPU || g.Thread == 0 || g.Note == "" || len(g.Frames) != 0 || f != nil {
			return fmt.Errorf("%+v at %v, want a goroutine 1 that runs on a CPU", g, f)
		}
		return nil
	})
}

// TestOther: without a call of treerun, the line of a process is that of its first goroutine, and the text has all.
func TestOther(t *testing.T) {
	process, want := start(t, built(t, "pure"), "other")
	await(t, process, func(s Stacks) error {
		g, f := s.Where()
		if g == nil || g.ID != 1 || f == nil || f.Function != "main.other" {
			return fmt.Errorf("the line of the process is %v", f)
		}
		name, line, _ := strings.Cut(want[0], " ")
		if part := "[chan receive]:\n" + name + "(...)\n\t" + line + "\n"; !strings.Contains(s.String(), part) ||
			strings.Contains(s.String(), "runtime.") {
			return fmt.Errorf("the text lacks %q, or has more than Go prints", part)
		}
		return nil
	})
}

// TestBusy reads a process whose goroutines change all the time: each stack is that of one moment.
func TestBusy(t *testing.T) {
	process, _ := start(t, built(t, "pure"), "busy")
	var r Reader
	seen, changed := 0, 0
	for range testutil.Count(300, 3000) {
		s, err := r.Read(process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range s.Goroutines {
			switch {
			case !strings.HasPrefix(g.Start, "main.busy.gowrap"):
			case g.OnCPU:
				changed++
			case len(g.Frames) == 1 && g.Frames[0].Function == "runtime.goexit": // it has not begun
			case g.Partial || len(lines(&g)) != 21:
				t.Fatalf("%v", g)
			default:
				seen++
			}
		}
	}
	t.Logf("%d stacks, and %d goroutines that ran", seen, changed)
	if seen == 0 {
		t.Error("no stack was read")
	}
}

// TestMany: the number of goroutines that are read has a limit.
func TestMany(t *testing.T) {
	process, want := start(t, built(t, "pure"), "many")
	await(t, process, func(s Stacks) error {
		if len(s.Goroutines) < maxGoroutines-10 || s.More < 1000 { // some have ended
			return fmt.Errorf("%d goroutines and %d more", len(s.Goroutines), s.More)
		}
		return first("chan receive", want)(s)
	})
}

// BenchmarkRead reads processes of one program, each in its turn, and its file once.
func BenchmarkRead(b *testing.B) {
	var all []*os.Process
	for range 16 {
		process, _ := start(b, built(b, "pure"), "channel")
		all = append(all, process)
	}
	var r Reader
	for i := 0; b.Loop(); i++ {
		if _, err := r.Read(all[i%len(all)].Pid); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirst reads a process whose file is not known yet.
func BenchmarkFirst(b *testing.B) {
	process, _ := start(b, built(b, "pure"), "channel")
	for b.Loop() {
		var r Reader
		if _, err := r.Read(process.Pid); err != nil {
			b.Fatal(err)
		}
	}
}
