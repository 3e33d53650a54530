//go:build linux

package kernels

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

const holds = "TREERUN_TEST_HOLDS" // in the environment of a process that compiles until it is killed

// hold starts a process that is the first to load, and compiles without end.
func hold(t *testing.T, test string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^"+test+"$")
	c.Env = append(os.Environ(), holds+"=1")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return c
}

// holding is the body of such a process.
func holding() {
	if os.Getenv(holds) != "" {
		_ = inTurn(func() error {
			_, _ = os.Stdout.WriteString("held\n")
			time.Sleep(time.Minute)
			return nil
		})
	}
}

// asking returns the number of goroutines that wait for their turn or have it.
func asking() (n int) {
	exe, _ := os.Readlink("/proc/self/exe")
	all, _ := os.ReadDir("/proc/self/fd")
	for _, f := range all {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); to == exe {
			n++
		}
	}
	return n
}

// The first of four compiles alone, then all others load at the same time. All return load's result.
func TestInTurn(t *testing.T) {
	began, first := make(chan int, 4), make(chan bool)
	var loads, together sync.WaitGroup
	together.Add(3)
	want := errors.New("does not compile")
	for i := range 4 {
		loads.Go(func() {
			err := inTurn(func() error {
				began <- i
				if i == 0 {
					<-first
					return want
				}
				together.Done()
				together.Wait()
				return want
			})
			if err != want {
				t.Errorf("load %d: %v", i, err)
			}
		})
		if i == 0 {
			<-began
		}
	}
	for asking() < 4 {
		time.Sleep(time.Millisecond)
	}
	select {
	case i := <-began:
		t.Errorf("load %d is beside the first", i)
	case <-time.After(100 * time.Millisecond):
	}
	close(first)
	loads.Wait()
}

// A process that is killed while it compiles does not stop the others.
func TestInTurnKilled(t *testing.T) {
	holding()
	c := hold(t, "TestInTurnKilled")
	began := make(chan bool)
	go inTurn(func() error {
		close(began)
		return nil
	})
	select {
	case <-began:
		t.Error("two processes compile at the same time")
	case <-time.After(100 * time.Millisecond):
	}
	killed := time.Now()
	_, _ = c.Process.Kill(), c.Wait()
	if <-began; time.Since(killed) > maxTurn/2 {
		t.Errorf("the next one began %v after the first was killed", time.Since(killed))
	}
}
