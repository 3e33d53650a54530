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

// The test binary is another process with tests, too: it says which port it got, and
// stays until its stdin ends.
func TestMain(m *testing.M) {
	if name = os.Getenv(other); name != "" {
		fmt.Println(FreePorts(1))
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	name = fmt.Sprint("@freeport-test-", os.Getpid(), "-") // tests of other packages shall find regions
	goleak.VerifyTestMain(m)
}

// other is the name of the environment variable that makes the test binary another
// process; its value is what the names of regions begin with.
const other = "FREEPORT_TEST_OTHER"

func TestAddress(t *testing.T) {
	seen := map[netip.AddrPort]bool{}
	for range 100 {
		at := netip.MustParseAddrPort(FreeAddress(t))
		if p := int(at.Port()); seen[at] || p <= lowest || p > highest || !at.Addr().IsLoopback() {
			t.Fatalf("%v, after %v", at, seen)
		}
		seen[at] = true
	}
	// What is taken is passed over, of either kind.
	first := FreePorts(3)
	ports.used -= 3
	if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first)); err == nil { // else somebody else has it
		defer l.Close()
	}
	if u, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", first+1)); err == nil {
		defer u.Close()
	}
	if at := netip.MustParseAddrPort(FreeAddress(t)); int(at.Port()) < first+2 {
		t.Errorf("%v is taken", at)
	}
}

// No two processes have a region in common; after its last port the first ones come again.
func TestRegions(t *testing.T) {
	letGo := func() {
		if ports.base > 0 {
			ports.claim.Close()
		}
		ports.base, ports.used = 0, 0
	}
	letGo()
	defer letGo()
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
		if theirs[(port-1)/region] {
			t.Errorf("two processes have ports beside %d", port)
		}
		theirs[(port-1)/region] = true
	}
	for range 3 {
		first := FreePorts(region)
		if first <= lowest || first+region-1 > highest || theirs[(first-1)/region] || first != ports.base+1 {
			t.Errorf("ports %d to %d; others have those from %v thousand on", first, first+region-1, theirs)
		}
	}
}
