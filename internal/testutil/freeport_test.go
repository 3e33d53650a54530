package testutil

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// The test binary also serves as another process with tests: it prints the port that it got, and stays until its stdin
// ends.
func TestMain(m *testing.M) {
	if name = os.Getenv(other); name != "" {
		fmt.Println(FreePorts(1))
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	name = fmt.Sprint("@freeport-test-", os.Getpid(), "-") // tests of other packages must still find ports
	goleak.VerifyTestMain(m)
}

// other is the name of the environment variable that makes the test binary another process; its value is the prefix of
// the names.
const other = "FREEPORT_TEST_OTHER"

func TestAddress(t *testing.T) {
	seen := map[netip.AddrPort]bool{}
	for range 100 {
		at := netip.MustParseAddrPort(FreeAddress(t))
		if p := int(at.Port()); seen[at] || p < lowest || p > highest || !at.Addr().IsLoopback() {
			t.Fatalf("%v, after %v", at, seen)
		}
		seen[at] = true
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if free(l.Addr().String()) {
		t.Errorf("%v is taken", l.Addr())
	}
}

// No port is given to two processes.
func TestProcessesHaveOtherPorts(t *testing.T) {
	theirs := map[int]bool{}
	for range 3 {
		process := exec.Command("/proc/self/exe")
		process.Env = append(os.Environ(), other+"="+name)
		stdin, err := process.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			stdin.Close()
			process.Wait()
		}()
		port := 0
		if _, err := fmt.Fscan(bufio.NewReader(stdout), &port); err != nil {
			t.Fatal(err)
		}
		if theirs[port] || claim(port) {
			t.Errorf("two processes have port %d", port)
		}
		theirs[port] = true
	}
	for range 3 {
		for first, i := FreePorts(100), 0; i < 100; i++ {
			if first <= lowest-1 || first+99 > highest || theirs[first+i] || claim(first+i) {
				t.Errorf("port %d", first+i)
			}
			theirs[first+i] = true
		}
	}
}
