//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// A thousand intruders, some with garbage, some with HTTP, some silent forever, connect
// to every port of a job's ranks, from the moment a port is open, while the job
// starts and makes calls. The job is not affected: it ends well, reports no
// lost ranks, and leaves nothing.
func TestIntrudersAtTheRanks(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	const size, intruders = 4, 1000
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	enough := filepath.Join(tmp, "enough")
	j := startJob(t, tmp, launcher, "-np", strconv.Itoa(size), looper, "-until", enough)

	came := map[string]int{} // by port
	var held []net.Conn
	deadline := time.Now().Add(maxWait)
	for missing := size; missing > 0; {
		if time.Now().After(deadline) {
			j.cmd.Process.Kill()
			t.Fatalf("intruders came to %v, want %d at %d ports; stderr:\n%s", came, intruders, size, &j.stderr)
		}
		for _, port := range j.ports(t) {
			for range min(50, intruders-came[port]) {
				if c := connectAs(t, port, came[port]); c != nil {
					held = append(held, c)
				}
				if came[port]++; came[port] == intruders {
					missing--
				}
			}
		}
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code := j.wait(t)
	for _, c := range held {
		c.Close()
	}
	if code != 0 || strings.Count(j.stdout.String(), "ready ") != size || strings.Contains(j.stderr.String(), "looper:") {
		t.Errorf("exit code %d, want 0 and %d ranks ready\nstdout:\n%s\nstderr:\n%s", code, size, &j.stdout, &j.stderr)
	}
	if err := os.Remove(enough); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, looper, tmp, before)
}

// connectAs connects to a port as intruder number i; it returns the connection if the
// intruder stays connected.
func connectAs(t *testing.T, port string, i int) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", port, maxWait)
	if err != nil {
		return nil // the rank has ended: the job's outcome shows an error
	}
	switch i % 4 {
	case 0:
		return c // silence
	case 1:
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	case 2:
		c.Write([]byte(strings.Repeat("\xff\x00garbage", 100+i)))
	case 3:
		c.Write([]byte("tree")) // too little to decide
		return c
	}
	c.Close()
	return nil
}

// ports returns the addresses at which the ranks listen now.
func (j *chaosJob) ports(t *testing.T) []string {
	t.Helper()
	theirs := map[string]bool{}
	for _, pid := range j.ranks() {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil {
				theirs[to] = true
			}
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	var doors []string
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // number, local address, remote address, state, ..., inode
		var port int
		if len(f) < 10 || f[3] != "0A" || !theirs["socket:["+f[9]+"]"] {
			continue
		}
		if _, err := fmt.Sscanf(f[1], "0100007F:%X", &port); err == nil {
			doors = append(doors, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}
	return doors
}
