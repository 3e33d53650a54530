//go:build linux

package job

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The state of a real process follows the signals sent to it.
func TestStates(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // SIGTSTP does not stop an orphaned process group
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer cmd.Wait()
	defer cmd.Process.Kill()
	want := func(text string) {
		t.Helper()
		for begin := time.Now(); ReadProc(pid).String() != text; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("process %d is %s, want %q", pid, ReadProc(pid), text)
			}
		}
	}
	want("sleeping")
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTSTP} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		name := map[syscall.Signal]string{syscall.SIGSTOP: "SIGSTOP", syscall.SIGTSTP: "SIGTSTP"}[sig]
		if s := waitStopped(pid); s.Signal == 0 {
			name = "a signal" // a kernel before 5.17
		}
		want("stopped by " + name)
		if !ReadProc(pid).Stopped() || ReadProc(pid).Ended() {
			t.Errorf("%s: Stopped is false or Ended true", ReadProc(pid))
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		want("sleeping")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	want("ended")
	if !ReadProc(pid).Ended() {
		t.Error("Ended is false")
	}
	cmd.Wait()
	if s := ReadProc(pid); s.Known() {
		t.Errorf("a process that is gone is %s", s)
	}
}

func waitStopped(pid int) ProcState {
	s := ReadProc(pid)
	for begin := time.Now(); !s.Stopped() && time.Since(begin) < 10*time.Second; s = ReadProc(pid) {
		time.Sleep(time.Millisecond)
	}
	return s
}

// This process reads its own state: it runs.
func TestSelf(t *testing.T) {
	if s := StatProc(os.Getpid()); s.Code != 'R' && s.Code != 'S' {
		t.Errorf("this process is %s", s)
	}
}

// The name of a program may contain any characters.
func TestParse(t *testing.T) {
	if s := parse("12 (a) S 1 (b)) S 7 42 9 0"); s.Code != 'S' {
		t.Errorf("got state %c, want S", s.Code)
	}
	rapid.Check(t, func(t *rapid.T) {
		if s := parse(fmt.Sprintf("5 (%s) R 1 42 3 0 -1", rapid.String().Draw(t, "name"))); s.Code != 'R' {
			t.Fatalf("got state %c, want R", s.Code)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("12 (cat) S 1 42 9 0")
	f.Add(") S 1")
	f.Fuzz(func(t *testing.T, text string) {
		if s := parse(text); s.String() == "" {
			t.Fatal(s)
		}
	})
}

// TestReadProcOfThreads: a process runs where its first thread sleeps and another one runs.
func TestReadProcOfThreads(t *testing.T) {
	if os.Getenv("TREERUN_TEST_SPINS") != "" {
		spin(make(chan bool))
		time.Sleep(time.Minute)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestReadProcOfThreads$")
	cmd.Env = append(os.Environ(), "TREERUN_TEST_SPINS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	for begin := time.Now(); StatProc(pid).Code != 'S' || ReadProc(pid).Code != 'R'; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("the first thread is %v, and the process %v", StatProc(pid), ReadProc(pid))
		}
	}
	for range 20 {
		if s := ReadProc(pid); s.Code != 'R' {
			t.Fatalf("the process is %v", s)
		}
	}
}

// spin has a thread run that is not the first one of the process.
func spin(never chan bool) {
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			spin(never)
			<-never
		}
		for n := 0; len(never) == 0; n++ {
		}
	}()
}
