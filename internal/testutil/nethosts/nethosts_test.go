//go:build linux

package nethosts_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// run runs a shell script inside host i and returns its output.
func run(t *testing.T, h *nethosts.Hosts, i int, script string) string {
	t.Helper()
	out, err := h.Command(i, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("host %d: %s: %v\n%s", i, script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// server runs this test binary inside host i: it answers every connection to port 4000 with its hostname and ends at
// SIGTERM.
func server(t *testing.T, h *nethosts.Hosts, i int) *exec.Cmd {
	t.Helper()
	cmd := h.Command(i, os.Args[0])
	cmd.Env = append(os.Environ(), "NETHOSTS_TEST=serve")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server on host %d did not start: %q, %v", i, line, err)
	}
	return cmd
}

// dial returns the answer of the server at address to host i, and otherwise "timeout" or the last word of another
// error.
func dial(t *testing.T, h *nethosts.Hosts, i int, address string) string {
	t.Helper()
	cmd := h.Command(i, os.Args[0])
	cmd.Env = append(os.Environ(), "NETHOSTS_TEST=dial", "NETHOSTS_ADDRESS="+address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("dial %s from host %d: %v\n%s", address, i, err, out)
	}
	return string(out)
}

func TestHostsAreApart(t *testing.T) {
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "apart"})
	dir := t.TempDir()
	for i := range h.Len() {
		if got := run(t, h, i, "hostname"); got != h.Name(i) || got != fmt.Sprint("apart", i) {
			t.Errorf("host %d is called %q, want %q", i, got, h.Name(i))
		}
		if got := run(t, h, i, "ls /sys/class/net"); got != "eth0\nlo" {
			t.Errorf("devices of host %d: %q", i, got)
		}
		if got := run(t, h, i, "echo mine > /dev/shm/x$(hostname); ls /dev/shm; ipcmk -M 4096 > /dev/null; ipcs -m | grep "+
			"-c ^0x"); got != "x"+h.Name(i)+"\n1" {
			t.Errorf("shared memory of host %d: %q", i, got)
		}
		cmd := h.Command(i, "pwd")
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != dir {
			t.Errorf("folder %q, %v; want %q", out, err, dir)
		}
	}
	cmd := server(t, h, 1)
	for _, address := range []string{h.Addr(1).String() + ":4000", "[" + h.Addr6In(0, 1).String() + "]:4000",
		h.Name(1) + ":4000"} {
		for i := range h.Len() {
			if got := dial(t, h, i, address); got != h.Name(1) {
				t.Errorf("from host %d, %s: %q", i, address, got)
			}
		}
	}
	// Signals to the command reach the program itself, and the exit code is the program's.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit code %d, want the 3 of the program's own handler", got)
	}
	if got := dial(t, h, 0, h.Name(1)+":4000"); got != "refused" {
		t.Errorf("without a server: %q", got)
	}
}

func TestUnplugAndSplit(t *testing.T) {
	h := nethosts.Up(t, 3, nethosts.Options{Networks: []nethosts.Network{{},
		{Rates: []string{"500mbit"}}}})
	server(t, h, 0)
	slow, fast := h.AddrIn(0, 0).String()+":4000", h.AddrIn(1, 0).String()+":4000"
	check := func(when, from1, from1fast, from2 string) {
		t.Helper()
		if a, b, c := dial(t, h, 1, slow), dial(t, h, 1, fast), dial(t, h, 2, slow); a != from1 || b != from1fast ||
			c != from2 {
			t.Errorf("%s: %s, %s, %s; want %s, %s, %s", when, a, b, c, from1, from1fast, from2)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := run(t, h, 1, "ls /sys/class/net; tc qdisc show dev eth1"); !strings.HasPrefix(got,
		"eth0\neth1\nlo\nqdisc tbf") || !strings.Contains(got, "rate 500Mbit") {
		t.Errorf("devices of host 1: %q", got)
	}
	check("at first", "h0", "h0", "h0")
	do(h.Unplug(0, 0))
	check("network 0 unplugged from host 0", "timeout", "h0", "timeout")
	do(h.Plug(0, 0))
	do(h.Split(0, []int{0, 2}))
	check("host 1 apart", "timeout", "h0", "h0")
	do(h.Split(0, []int{1, 0}, []int{2}))
	check("host 2 apart", "h0", "h0", "timeout")
	do(h.Split(0))
	check("whole again", "h0", "h0", "h0")
	do(h.Cut(0, 1, 0))
	check("no way between host 1 and host 0", "timeout", "h0", "h0")
	do(h.Unmute(0, 0))
	do(h.Unmute(0, 1))
	check("a way again", "h0", "h0", "h0")
	do(h.Mute(0, 0))
	check("host 0 is mute", "timeout", "h0", "timeout")
	do(h.Unmute(0, 0))
	check("healed", "h0", "h0", "h0")
}

func TestMesh(t *testing.T) {
	h := nethosts.Up(t, 3, nethosts.Options{Networks: []nethosts.Network{{Mesh: [][]string{
		{"-", "400mbit", "-"},
		{"200mbit", "-", "0"},
		{"-", "0", "-"},
	}}}})
	if got := run(t, h, 0, "ls /sys/class/net; tc qdisc show dev to1; tc qdisc show dev to2"); !strings.HasPrefix(got,
		"eth0\nlo\nto1\nto2\n") || strings.Count(got, "tbf") != 1 {
		t.Errorf("host 0: %q", got)
	}
	server(t, h, 0)
	server(t, h, 2)
	for i := range 3 {
		if got := dial(t, h, i, h.Addr(0).String()+":4000"); got != "h0" {
			t.Errorf("host %d to host 0: %s", i, got)
		}
	}
	if got := dial(t, h, 1, h.Addr(2).String()+":4000"); got == "h2" {
		t.Error("there is no link from 1 to 2, and yet one gets there")
	}
}

func TestAgentAndShell(t *testing.T) {
	h := nethosts.Up(t, 2, nethosts.Options{})
	for _, host := range []string{"h1", "me@h1", h.Addr(1).String(), h.Addr6In(0, 1).String()} {
		agent := strings.Fields(strings.ReplaceAll(h.Agent(), "{host}", host))
		for _, words := range [][]string{
			append(agent, "sh", "-c", `read x; echo "$x $1" from $(hostname)`, "sh", "a  b"),
			{"sh", h.Shell(), "-x", "-o", "Option=x", host, "read", "x;", `echo "$x" 'a  b'`, "from", "$(hostname)"},
		} {
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Stdin = strings.NewReader("hello\n")
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "hello a  b from h1\n" {
				t.Errorf("%q: %q, %v", words, out, err)
			}
		}
	}
	out, err := exec.Command("sh", h.Shell(), "h2", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `no host "h2"`) {
		t.Errorf("a host that is not there: %q, %v", out, err)
	}
}

func TestKillAndStop(t *testing.T) {
	h := nethosts.Up(t, 2, nethosts.Options{})
	here, there := server(t, h, 0), server(t, h, 1)
	pids, err := h.Pids(1)
	if err != nil || len(pids) != 1 || pids[0] != there.Process.Pid {
		t.Errorf("processes %v, %v; want %d", pids, err, there.Process.Pid)
	}
	state := func() string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", there.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		s := string(b)
		return s[strings.LastIndex(s, ")")+2:][:1]
	}
	if err := h.Signal(1, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); state() != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("state %s of a process in a stopped host", state())
		}
	}
	if err := h.Kill(1); err != nil {
		t.Fatal(err)
	}
	_ = there.Wait()
	if s := there.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Errorf("killed host: %v", there.ProcessState)
	}
	if got := run(t, h, 1, "hostname"); got != "h1" {
		t.Errorf("a killed host returns %q", got)
	}
	if got := dial(t, h, 1, "h0:4000"); got != "h0" {
		t.Errorf("the other host: %q", got)
	}
	_ = here.Process.Kill()
	_ = here.Wait()
}

// Whatever happens to the process that made hosts, nothing remains: neither processes in the hosts nor the namespaces,
// which live as long as a process is in them.
func TestNothingIsLeft(t *testing.T) {
	for _, end := range []string{"close", "kill"} {
		t.Run(end, func(t *testing.T) {
			probe := nethosts.Up(t, 1, nethosts.Options{}) // skips if hosts cannot be made
			if err := probe.Close(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			maker := exec.Command(os.Args[0])
			maker.Env = append(os.Environ(), "NETHOSTS_TEST=make", "TMPDIR="+dir)
			out, err := maker.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := maker.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := maker.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			line, err := lines.ReadString('\n')
			net := strings.TrimSpace(line)
			if err != nil || net == "" || users(t, net) < 2 {
				t.Fatalf("namespace %q, %v: holder and sleeper must be in it", net, err)
			}
			if end == "kill" {
				_ = maker.Process.Kill()
			}
			_ = in.Close()
			_ = maker.Wait()
			left := func() []string {
				files, err := filepath.Glob(dir + "/*")
				if err != nil {
					t.Fatal(err)
				}
				return files
			}
			for stop := time.Now().Add(time.Minute); users(t, net) > 0 || len(left()) > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(stop) {
					t.Fatalf("%d processes are still in the namespace, files %v", users(t, net), left())
				}
			}
		})
	}
}

// users counts the processes in a network namespace.
func users(t *testing.T, net string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range all {
		if link, err := os.Readlink(p); err == nil && link == net {
			n++
		}
	}
	return n
}

// tc reports an invalid rate.
func TestNoRate(t *testing.T) {
	nethosts.Up(t, 1, nethosts.Options{}) // skips if hosts cannot be made
	o := nethosts.Options{Networks: []nethosts.Network{{Rates: []string{"5x"}}}}
	if h, err := nethosts.Make(1, o); err == nil || !strings.Contains(err.Error(), `rate": "5x"`) {
		t.Errorf("hosts %v, %v", h, err)
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv("NETHOSTS_TEST") {
	case "serve":
		serve()
	case "dial":
		fmt.Print(ask(os.Getenv("NETHOSTS_ADDRESS")))
	case "make":
		h, err := nethosts.Make(1, nethosts.Options{})
		if err != nil {
			panic(err)
		}
		sleeper := h.Command(0, "sleep", "1000")
		if err := sleeper.Start(); err != nil {
			panic(err)
		}
		out, err := h.Command(0, "readlink", "/proc/self/ns/net").Output()
		if err != nil {
			panic(err)
		}
		fmt.Print(string(out))
		_, _ = io.ReadAll(os.Stdin)
		if err := h.Close(); err != nil {
			panic(err)
		}
	default:
		os.Exit(m.Run())
	}
}
