//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
)

// openTerminal returns both sides of a new pseudo terminal.
func openTerminal(t *testing.T) (user, tty *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, os.ErrNotExist) {
		testutil.Need(t, testutil.Terminal, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return user, tty
}

// terminalJob is a treerun on a terminal of its own.
type terminalJob struct {
	t      *testing.T
	user   *os.File
	cmd    *exec.Cmd
	killer *time.Timer
	screen bytes.Buffer // the output so far
}

// startOnTerminal starts treerun with arguments, and with variables in addition to this process's. A
// shell leads the session until all is read: when a leader ends, output that its terminal has not
// shown yet may be lost.
func startOnTerminal(t *testing.T, env []string, args ...string) *terminalJob {
	t.Helper()
	user, tty := openTerminal(t)
	cmd := exec.Command("sh", append([]string{
		"-c", `trap : INT; "$0" "$@"; printf "\\004%s\\005" $?; read seen`, namedTreerun(t),
	}, args...)...)
	cmd.Env = append(append(os.Environ(), "NO_COLOR=", "TERM=xterm"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	return &terminalJob{t: t, user: user, cmd: cmd, killer: time.AfterFunc(maxWait, func() { cmd.Process.Kill() })}
}

// waitForText reads the output of the terminal until it contains text.
func (o *terminalJob) waitForText(text string) {
	o.t.Helper()
	b := make([]byte, 4096)
	for !strings.Contains(o.screen.String(), text) {
		n, err := o.user.Read(b)
		if err != nil {
			o.t.Fatalf("the terminal shows %q without %q: %v", &o.screen, text, err)
		}
		o.screen.Write(b[:n])
	}
}

// typeText types text as the user.
func (o *terminalJob) typeText(text string) {
	o.t.Helper()
	if _, err := o.user.WriteString(text); err != nil {
		o.t.Fatal(err)
	}
}

// checkExit reads all output, and checks the exit code, unless that is negative. It returns the output.
func (o *terminalJob) checkExit(code int) string {
	o.t.Helper()
	o.waitForText("\x05")
	shown, end, _ := strings.Cut(o.screen.String(), "\x04")
	o.typeText("\n")
	o.cmd.Wait() // the output has the exit code of treerun
	if !o.killer.Stop() || code >= 0 && end != fmt.Sprintf("%d\x05", code) {
		o.t.Errorf("treerun ended with exit code %q, want %d; shown: %q", end, code, shown)
	}
	return shown
}

// On a terminal, rank 0 reads the input of the user although it is in the
// background, ^C stops the job, and progress lines are lines, of which the last is shown.
func TestTerminal(t *testing.T) {
	t.Parallel()
	o := startOnTerminal(t, nil, "-np", "2", "sh", "-c",
		`printf "50%%\r60%%\r70%%\r"; if [ $RANK = 0 ]; then read answer; echo "heard $answer"; fi; sleep 300`)
	const tag0, tag1 = "\x1b[36m[0]\x1b[0m ", "\x1b[32m[1]\x1b[0m "
	o.waitForText(tag0 + "70%\r\n")
	o.waitForText(tag1 + "70%\r\n")
	o.typeText("fine\n")
	o.waitForText(tag0 + "heard fine\r\n")
	o.typeText("\x03") // ^C
	o.waitForText("\x1b[1;31mtreerun:\x1b[0m stopped by SIGINT")
	o.checkExit(130)
}

// Without colors the tags are plain. A rank that leaves its own on does not color the next line.
func TestColors(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"NO_COLOR=1", "TERM=dumb"} {
		o := startOnTerminal(t, []string{off}, "-np", "2", "sh", "-c", `printf "\033[31mred\nplain\n"; exit 3`)
		shown := o.checkExit(3)
		for _, want := range []string{"[0] \x1b[31mred\x1b[0m\r\n", "[1] plain\r\n", "treerun: rank "} {
			if !strings.Contains(shown, want) || strings.Contains(shown, "m[0]") {
				t.Errorf("%s: the terminal shows %q without %q", off, shown, want)
			}
		}
	}
	shown := startOnTerminal(t, nil, "check").checkExit(-1) // the code depends on this machine
	if want := "\x1b[32mok    \x1b[0m cores "; !strings.Contains(shown, want) {
		t.Errorf("check shows %q without %q", shown, want)
	}
}

// The first ^C prints its effect and that of a second one, which has that effect.
func TestAnotherInterrupt(t *testing.T) {
	t.Parallel()
	o := startOnTerminal(t, nil, "-np", "2", "sh", "-c", `trap "" TERM INT; echo set; while :; do sleep 1; done`)
	o.waitForText("[0]\x1b[0m set")
	o.waitForText("[1]\x1b[0m set")
	o.typeText("\x03")
	o.waitForText("treerun: got SIGINT: stopping 2 ranks, SIGKILL after 10s (another Ctrl-C kills them now)")
	o.typeText("\x03")
	o.checkExit(130)
}

// A build that takes long is reported: on a terminal in a line that is erased at its
// end, elsewhere once.
func TestSlowBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bin/go":      "#!/bin/sh\nsleep $SLOW\necho no luck >&2\nexit 1\n",
		"src/main.go": "package main\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, src := "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), filepath.Join(dir, "src")
	shown := startOnTerminal(t, []string{path, "SLOW=2.5"}, src).checkExit(125)
	// On a busy machine the build takes longer than it sleeps.
	status := "treerun: building " + fmt.Sprintf("%.50s", src) + " ... "
	ended := regexp.MustCompile(regexp.QuoteMeta(status) + `\d+ s\r\x1b\[Kno luck\r\n`)
	if !strings.Contains(shown, status+"2 s\r") || !ended.MatchString(shown) {
		t.Errorf("the terminal shows %q, not %q with 2 s and then an empty line", shown, status)
	}
	l := startTreerun(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, path, "SLOW=6") }, src)
	l.checkExit(125)
	want := "treerun: building " + fmt.Sprintf("%.50s", src) + " ... 5 s so far\nno luck\n"
	if !strings.HasPrefix(l.stderr.String(), want) {
		t.Errorf("stderr is %q, want %q first", l.stderr.String(), want)
	}
}

// The output of topo, plan and check fits into 80 columns of a terminal, and is complete.
func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"topo", "--graph", "dgx1v"}, {"topo", "--graph", "abilene"}, {"plan", "--graph", "dgx1v"}, {"check"},
	} {
		shown := startOnTerminal(t, []string{"NO_COLOR=1"}, args...).checkExit(-1)
		for line := range strings.Lines(shown) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > 80 {
				t.Errorf("%s: a line of %d columns: %q", args, n, line)
			}
		}
		plain := startTreerun(t, nil, args...)
		for line := range plain.lines {
			plain.output = append(plain.output, line)
		}
		plain.cmd.Wait() // the output is compared, not the exit code
		want, got := strings.Join(plain.output, " "), shown
		if args[0] != "check" && strings.Join(strings.Fields(want), " ") != strings.Join(strings.Fields(got), " ") {
			t.Errorf("%s: the terminal shows %q, a pipe gets %q", args, got, want)
		}
	}
}

// Waits for hosts, for nodes and for measurements are shown on a terminal, in a line that is erased before other
// output. In a pipe there is none.
func TestProgress(t *testing.T) {
	t.Parallel()
	slow := `env FAKEHOST={host} sh -c 'if [ $FAKEHOST = b ]; then sleep 2.5; fi; exec "$@"' -`
	node := func(rank string) []string {
		n := newNodes(t, 3)
		return []string{"--nnodes", "3", "--node-rank", rank, "--seed", n.seed, "--key-file", n.key, "--start-timeout", "2.5",
			"-np", "3", "true"}
	}
	job := []string{"--launch-agent", slow, "-H", "a,b,c", "sh", "-c", "echo here"}
	for _, c := range []struct {
		args      []string
		code      int
		line, end string
	}{
		{job, 0, "treerun: connecting: 2 of 3 hosts, without b ... ", "here"},
		{node("0"), 125, "treerun: 1 of 3 nodes are connected, without 1,2 ... ",
			"nodes 1,2 did not connect to "},
		{node("1"), 125, "treerun: waiting for node 0 at ",
			"node 1 could not join node 0 at "},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			shown := startOnTerminal(t, nil, c.args...).checkExit(c.code)
			line := regexp.QuoteMeta(c.line) + `[^\r\n]*`
			if !regexp.MustCompile(line+`1 s\r`).MatchString(shown) ||
				!regexp.MustCompile(`(?s)`+line+`[0-9]+ s\r\x1b\[K\r[^\n]*`+c.end).MatchString(shown) {
				t.Errorf("the terminal shows %q without %q, which is erased before %q", shown, c.line, c.end)
			}
			l := startTreerun(t, func(cmd *exec.Cmd) { cmd.Path = namedTreerun(t) }, c.args...)
			l.checkExit(c.code)
			if strings.Contains(l.stderr.String(), " ... ") {
				t.Errorf("stderr is no terminal, and is %q", &l.stderr)
			}
		})
	}
}

// Measurements that take long are shown on a terminal: here a rank is stopped meanwhile.
func TestProgressOfMeasuring(t *testing.T) {
	t.Parallel()
	const line = "treerun: measuring the links between 2 ranks ... "
	for range 20 { // a quick machine may have measured before the rank can be stopped
		mark := "TREERUN_TEST_MARK=" + t.TempDir()
		o := startOnTerminal(t, []string{mark}, "topo", "-np", "2")
		ended := make(chan struct{})
		stopped := make(chan int, 1)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-ended:
					return
				default:
				}
				for _, pid := range processesWith(mark) {
					cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
					if strings.HasPrefix(string(cmd), "treerun\x00rank:topo") && syscall.Kill(pid, syscall.SIGSTOP) == nil {
						stopped <- pid
						return
					}
				}
			}
		}()
		o.waitForText("2 ranks") // of the line, or of the result
		close(ended)
		pid := <-stopped
		if strings.Contains(o.screen.String(), line) {
			o.waitForText(line + "2 s\r")
		}
		if pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		shown := o.checkExit(0)
		if strings.Contains(shown, line) {
			erased := regexp.MustCompile(regexp.QuoteMeta(line) + `\d+ s\r\x1b\[K`)
			if rest := erased.ReplaceAllString(shown, ""); strings.Contains(rest, line) {
				t.Errorf("the terminal shows %q: the line is not always erased before other output", shown)
			}
			return
		}
	}
	t.Error("the ranks have measured 20 times before one was stopped")
}
