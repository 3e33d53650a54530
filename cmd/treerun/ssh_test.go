//go:build linux

package main

import (
	"fmt"
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

// sshHosts are hosts with a real sshd each, except host 0, on which treerun is
// started; keys and configuration belong to this test only.
type sshHosts struct {
	t      *testing.T
	hosts  *nethosts.Hosts
	config string // of the client
	self   string // this test binary under the name treerun
}

func newSSHHosts(t *testing.T, n int) *sshHosts {
	t.Helper()
	testutil.NotUnderRace(t, "sshd does the work")
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err == nil {
		_, err = exec.LookPath("ssh")
	}
	testutil.Need(t, testutil.SSHD, err)
	s := &sshHosts{t: t, hosts: nethosts.Up(t, n, nethosts.Options{}), self: namedTreerun(t)}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd needs it, and Debian makes it at every start
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, format string, args ...any) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	public := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	known := file("known", "* %s", public("host"))
	s.config = file("config", "Host *\nUser root\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile "+
		"%s\nStrictHostKeyChecking yes\n", filepath.Join(dir, "user"), known)
	server := file("sshd", "HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPasswordAuthentication "+
		"no\nPidFile none\nUseDNS no\n",
		filepath.Join(dir, "host"), file("authorized", "%s", public("user")))
	for i := 1; i < n; i++ {
		cmd := s.hosts.Command(i, sshd, "-D", "-e", "-f", server)
		cmd.Stderr = testWriter{t}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.hosts.Kill(i); err != nil { // a session has its stderr, too
				t.Error(err)
			}
			_ = cmd.Wait()
		})
		s.waitForListener(i)
	}
	return s
}

// testWriter shows the messages of a server when the test fails.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// waitForListener waits until the server of host i listens.
func (s *sshHosts) waitForListener(i int) {
	s.t.Helper()
	for end := time.Now().Add(maxWait); ; time.Sleep(10 * time.Millisecond) {
		out, err := s.hosts.Command(i, "cat", "/proc/net/tcp").Output()
		if err == nil && strings.Contains(string(out), "00000000:0016 ") {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("no sshd on host %d: %v\n%s", i, err, out)
		}
	}
}

// launch starts treerun on host 0.
func (s *sshHosts) launch(args ...string) *launched {
	s.t.Helper()
	args = append([]string{"--ssh-args", "-F " + s.config}, args...)
	return startTreerun(s.t, func(c *exec.Cmd) {
		inside := s.hosts.Command(0, s.self, args...)
		c.Path, c.Args = inside.Path, inside.Args
	})
}

// namedTreerun returns this test binary under a name with which its agents run as
// treerun, too.
func namedTreerun(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "treerun")
	if os.Link(self, named) == nil { // a copy may be busy: a process that was just forked has it open to write
		return named
	}
	text, err := os.ReadFile(self) // the folder is on another file system
	if err == nil {
		err = os.WriteFile(named, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return named
}

func TestSSH(t *testing.T) {
	s := newSSHHosts(t, 3)
	l := s.launch("-H", "h0:1,root@h1:2,"+s.hosts.Addr(2).String(), "-x", `WORDS=a "b" $c`, "sh", "-c",
		`echo $RANK of $WORLD_SIZE on $(hostname): "$WORDS"`)
	l.checkEnd(0)
	text := strings.Join(l.output, "\n")
	for rank, host := range []string{"h0", "h1", "h1", "h2"} {
		if want := fmt.Sprintf(`[%d] %d of 4 on %s: a "b" $c`, rank, rank, host); !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}

	// The program's failure on the other host, and that of ssh itself.
	s.launch("-H", "h1:1,h2:1", "sh", "-c", `[ $RANK = 1 ] && exit 9; sleep 300`).checkEnd(9)
	l = s.launch("-H", "h1:1,nobody:1", "true")
	l.checkEnd(125)
	if text := l.stderr.String(); !strings.Contains(text, "host nobody") ||
		!strings.Contains(text, "Could not resolve hostname") {
		t.Errorf("ssh's own words are missing:\n%s", text)
	}
}

// The user's configuration counts: host 2 is reached through host 1.
func TestSSHJumpHost(t *testing.T) {
	s := newSSHHosts(t, 3)
	old, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	jump := fmt.Sprintf("Host far\nHostName %s\nProxyCommand ssh -F %s -W %%h:%%p h1\n", s.hosts.Addr(2), s.config)
	if err := os.WriteFile(s.config, append([]byte(jump), old...), 0o600); err != nil {
		t.Fatal(err)
	}
	l := s.launch("-H", "far:2", "hostname")
	l.checkEnd(0)
	if text := strings.Join(l.output, "\n"); strings.Count(text, "h2") != 2 {
		t.Errorf("printed %s", text)
	}
}

// A host whose cable is pulled is given up within the peer timeout, and named.
func TestSSHHostVanishes(t *testing.T) {
	s := newSSHHosts(t, 3)
	l := s.launch("-H", "h0:1,h1:1,h2:1", "--peer-timeout", "2", "sh", "-c", nodeSleeper)
	l.expect(3, "pid ")
	if err := s.hosts.Unplug(0, 2); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	l.checkEnd(125)
	if took := time.Since(begin); took > maxWait {
		t.Errorf("it took %v", took)
	}
	if text := l.stderr.String(); !strings.Contains(text, "host h2 was lost") {
		t.Errorf("host h2 is not named:\n%s", text)
	}
	// No process on that host was notified either; sshd itself waits for longer.
	left := func() (all []string) {
		pids, err := s.hosts.Pids(2)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 &&
				!strings.HasPrefix(string(line), "sshd:") {
				all = append(all, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return all
	}
	for end := time.Now().Add(maxWait / 2); len(left()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still on host h2: %q", left())
		}
	}
}

// ssh is killed: its host is lost at once.
func TestSSHKilled(t *testing.T) {
	s := newSSHHosts(t, 2)
	l := s.launch("-H", "h0:1,h1:1", "sh", "-c", nodeSleeper)
	l.expect(2, "pid ")
	for _, pid := range processesWith(l.mark) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "ssh\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	l.checkEnd(125)
	if text := l.stderr.String(); !strings.Contains(text, "ssh was killed by SIGKILL") {
		t.Errorf("stderr:\n%s", text)
	}
}
