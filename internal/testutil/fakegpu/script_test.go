package fakegpu

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// script returns a command that runs scripts/fake-gpu.sh with a temporary folder
// of its own, which must be empty afterwards.
func script(t *testing.T, args ...string) (cmd *exec.Cmd, empty func()) {
	t.Helper()
	testutil.Need(t, testutil.Compilers, Missing())
	_, err := os.Stat("/bin/bash")
	testutil.Need(t, testutil.Bash, err)
	path, err := filepath.Abs("../../../scripts/fake-gpu.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd = exec.Command("/bin/bash", append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return cmd, func() {
		t.Helper()
		var left []string
		for range 600 { // what ends last may need a moment
			left = nil
			filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if path != dir && err == nil {
					left = append(left, path)
				}
				return nil
			})
			if len(left) == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("left behind: %v", left)
	}
}

func TestScript(t *testing.T) {
	program, err := driver()
	if err != nil {
		testutil.Need(t, testutil.Compilers, Missing())
		t.Fatal(err)
	}
	const fake = "fake GPU: 8 GPUs of dgx1v, made of this machine's memory and cores\n"
	for _, c := range []struct {
		name string
		args []string
		env  []string
		in   string
		code int
		want []string
	}{
		{name: "a program that opens the driver", args: []string{"--graph", "dgx1v", "--", program, "values"},
			want: []string{fake, "ok\n"}},
		{name: "its exit code", args: []string{"--graph=dgx1v", "--", "sh", "-c", "exit 7"}, code: 7, want: []string{fake}},
		{name: "a signal", args: []string{"--graph", "dgx1v", "--", "sh", "-c", "kill -9 $$"}, code: -1},
		{name: "standard input", args: []string{"--graph", "dgx1v", "--", "cat"}, in: "words", want: []string{"words"}},
		{name: "no such command", args: []string{"--graph", "dgx1v", "--", "/nowhere"}, code: 127,
			want: []string{"/nowhere"}},
		{name: "an unknown graph", args: []string{"--graph", "dgx9", "--", "true"}, code: 125,
			want: []string{`"dgx9" is no fake host: want dgx1v`}},
		{name: "ranks that are not there", args: []string{"--graph", "dgx1v/6-8", "--", "true"}, code: 125,
			want: []string{"dgx1v/6-8: a DGX-1V has the GPUs 0 to 7"}},
		{name: "no graph", args: []string{"--", "true"}, code: 64, want: []string{"usage: scripts/fake-gpu.sh"}},
		{name: "no command", args: []string{"--graph", "dgx1v", "--"}, code: 64,
			want: []string{"usage: scripts/fake-gpu.sh"}},
		{name: "no compiler", args: []string{"--graph", "dgx1v", "--", "true"}, env: []string{"CXX=no-c++"}, code: 125,
			want: []string{`the fake GPU's libraries cannot be built: exec: "no-c++": executable file not found`,
				"Debian has it in gcc and g++"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, empty := script(t, c.args...)
			cmd.Env = append(cmd.Env, c.env...)
			cmd.Stdin = strings.NewReader(c.in)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out)
			}
			for _, w := range c.want {
				if !bytes.Contains(out, []byte(w)) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			empty()
		})
	}
}

// TestScriptKilled: whatever kills the script or its command, the folder goes.
func TestScriptKilled(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{
		{"terminated", syscall.SIGTERM, -1},
		{"interrupted", syscall.SIGINT, 3}, // the command catches that
		{"killed", syscall.SIGKILL, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, empty := script(t, "--graph", "dgx1v", "--", "/bin/bash", "-c", "trap 'exit 3' INT; echo ready; read -r line")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			cmd.Process.Signal(c.signal)
			timer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
			cmd.Wait()
			timer.Stop()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			empty()
		})
	}
}

// The check of GPUs runs its steps on a fake host, ends with code 1 when one is wrong, and leaves a page.
func TestGPUCheck(t *testing.T) {
	cmd, _ := script(t, "--graph", "dgx1v/0", "--")
	programs, root := t.TempDir(), filepath.Dir(filepath.Dir(cmd.Args[1]))
	for _, pkg := range []string{"cmd/treerun", "examples/train"} {
		if err := testutil.Build("github.com/treerun/treerun/"+pkg, filepath.Join(programs, filepath.Base(pkg))); err != nil {
			t.Fatal(err)
		}
	}
	// There is no kernels.test.
	for steps, code := range map[string]int{"check latency train": 0, "check kernels": 1, "nothing": 64} {
		page := filepath.Join(t.TempDir(), "page.md")
		cmd, empty := script(t, append([]string{"--graph", "dgx1v/0", "--", filepath.Join(root, "scripts/gpu-check.sh"),
			"--programs", programs, "--page", page}, strings.Fields(steps)...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%s: exit code %d, want %d\n%s", steps, got, code, out)
		}
		text, err := os.ReadFile(page)
		for _, want := range append(strings.Fields(steps), "a fake host") {
			if code != 64 && !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is missing in the page: %v\n%s", steps, want, err, text)
			}
		}
		empty()
	}
}
