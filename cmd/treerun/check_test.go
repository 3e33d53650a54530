//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// runCheckOn runs check from host 0 and returns the exit code and the output.
func runCheckOn(t *testing.T, h *nethosts.Hosts, agent string, args ...string) (code int, text string) {
	t.Helper()
	cmd := h.Command(0, namedTreerun(t), append([]string{"check", "--launch-agent", agent}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // ProcessState holds the exit status
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestCheckHosts: equal hosts, and hosts of which each differs: one is down, one has another treerun, one a
// lower limit, one another MTU and other names; then two that do not reach each other.
func TestCheckHosts(t *testing.T) {
	testutil.NotUnderRace(t, "package check has tests of its own")
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "chk"})
	wants := func(code, want int, text string, lines ...string) {
		t.Helper()
		if code != want {
			t.Errorf("code %d, want %d", code, want)
		}
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("no %q", line)
			}
		}
		if t.Failed() {
			t.Fatalf("\n%s", text)
		}
	}
	code, text := runCheckOn(t, h, h.Agent(), "-H", "chk0:2,chk1:2,chk2:2")
	wants(code, 0, text, "ok     hosts          3 of 3 answer\n", "ok     treerun ",
		"ok     network        eth0 (MTU 1500)\n", "ok     names          chk0 is 10.77.0.1 and fd77::1, chk1 is ",
		"ok     clock          at most 100ms from this host's\n", "ok     tcp            each host reaches all others\n")

	dir := t.TempDir()
	agent := filepath.Join(dir, "agent")
	names := filepath.Join(dir, "names")
	for path, content := range map[string]string{
		names: "10.9.9.9 chk0\n10.77.0.2 chk1\n10.77.0.3 chk2\n",
		agent: `case $1 in
down) echo "connect to host down: no route" >&2; exit 255 ;;
old) echo "treerun-agent: v9.9.9"; exec cat ;;
chk1) ulimit -n 300 ;;
esac
exec ` + strings.ReplaceAll(h.Agent(), "{host}", `"$@"`) + "\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := h.Command(2, "sh", "-c", "ip link set dev eth0 mtu 1400; mount --bind "+names+
		" /etc/hosts").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hostfile := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hostfile, []byte("chk0\nchk1 slots=4\nchk2\ndown\nold\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, text = runCheckOn(t, h, "sh "+agent+" {host}", "--hostfile", hostfile)
	wants(code, 1, text, "WRONG  host           down: sh exited with code 255: connect to host down: no route\n",
		"WRONG  host           old: treerun there is v9.9.9, and here ", "note   hosts          3 of 5 answer\n",
		"WRONG  open files     chk1: 300, at most 300: about 320 for 4 ranks (remedy: ulimit -n 320)\n",
		"ok     network        chk0, chk1: eth0 (MTU 1500)\n", "note   network        chk2: eth0 (MTU 1400) (remedy: one MTU",
		"ok     names          chk0, chk1: chk0 is 10.77.0.1", "note   names          no address for down, old (remedy: ",
		"note   names          chk2: chk0 is 10.9.9.9, ",
		"ok     tcp            each host reaches all others\n")

	if err := h.Cut(0, 1, 2); err != nil {
		t.Fatal(err)
	}
	code, text = runCheckOn(t, h, h.Agent(), "-H", "chk0,chk1,chk2", "--start-timeout", "8")
	wants(code, 1, text, "on host chk1) -> rank 2 (", "on host chk2) -> rank 1 (",
		"WRONG  tcp            a rank on each host fails: exit status 125 (remedy: the lines above name the fault")
	for i := range h.Len() {
		if err := waitUntilEmpty(h, i); err != nil {
			t.Error(err)
		}
	}
}

// TestLoopbackDown: without the loopback a job of one host is refused at once, with another device or none, here or by
// an agent, and check reports the fault.
func TestLoopbackDown(t *testing.T) {
	named := namedTreerun(t)
	for _, down := range []string{"ip link set lo down", "ip link set lo down; ip link del eth0"} {
		h := nethosts.Up(t, 1, nethosts.Options{Prefix: "lo"})
		if out, err := h.Command(0, "sh", "-c", down).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", down, err, out)
		}
		for _, args := range [][]string{{"-np", "2"}, {"-H", "x:2", "--launch-agent", "env X={host}"}} {
			var stderr bytes.Buffer
			cmd := h.Command(0, named, append(args, "sleep", "300")...)
			cmd.Stderr = &stderr
			_ = cmd.Run() // ProcessState holds the exit status
			text := stderr.String()
			if code := cmd.ProcessState.ExitCode(); code != 125 || strings.Count(text, "\n") != 1 ||
				!strings.Contains(text, "the loopback device lo is down") || !strings.Contains(text, "ip link set lo up") {
				t.Errorf("%s, %q: code %d, want 125 and one line, not %q", down, args, code, text)
			}
		}
		out, err := h.Command(0, named, "check").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "WRONG  network ") ||
			!strings.Contains(string(out), "(remedy: ip link set lo up)") {
			t.Errorf("%s: check: %v\n%s", down, err, out)
		}
		if out, err := h.Command(0, named, "-np", "1", "true").CombinedOutput(); err != nil && !strings.Contains(
			string(out), "ip link set lo up") {
			t.Errorf("%s: one rank: %v: %s", down, err, out)
		}
	}
}

// TestKillCheck: a check that is killed while it waits for hosts leaves nothing, on this host or on them.
func TestKillCheck(t *testing.T) {
	named, waits := namedTreerun(t), filepath.Join(t.TempDir(), "waits")
	l := startTreerun(t, func(c *exec.Cmd) { c.Path = named }, "check", "-H", "a,b", "--launch-agent",
		`sh -c 'test {host} = a && exec "$@"; >`+waits+`; sleep 300' -`)
	for late := time.Now().Add(maxWait); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(waits); err == nil {
			break
		} else if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	l.signal(syscall.SIGKILL)
	l.checkEnd(137)
}
