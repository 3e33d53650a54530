//go:build linux

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

// script returns a command that runs scripts/fake-gpu.sh with its own temporary folder, which must be empty afterwards.
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
		for range 600 { // the last processes may need a moment to end
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

// TestScriptKilled: if the script or its command is killed, in any way, the folder is removed.
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

// gpuCheck returns a command that runs scripts/gpu-check.sh on a fake host, with treerun, train and a kernels.test that
// runs a given script, the path of the page, and a file with the script's processes.
func gpuCheck(t *testing.T, kernels, args string) (cmd *exec.Cmd, page, pids string, empty func()) {
	t.Helper()
	cmd, _ = script(t, "--graph", "dgx1v/0", "--")
	dir, root := t.TempDir(), filepath.Dir(filepath.Dir(cmd.Args[1]))
	for _, pkg := range []string{"cmd/treerun", "examples/train"} {
		if err := testutil.Build("github.com/treerun/treerun/"+pkg, filepath.Join(dir, filepath.Base(pkg))); err != nil {
			t.Fatal(err)
		}
	}
	page, pids = filepath.Join(dir, "page.md"), filepath.Join(dir, "pids")
	if kernels != "" {
		text := "#!/bin/bash\npids=" + pids + "\n" + kernels
		if err := os.WriteFile(filepath.Join(dir, "kernels.test"), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd, empty = script(t, append([]string{"--graph", "dgx1v/0", "--", filepath.Join(root, "scripts/gpu-check.sh"),
		"--programs", dir, "--page", page}, strings.Fields(args)...)...)
	return cmd, page, pids, empty
}

// hangs is a step that does not end when requested, and has a process in its own session. The measurement of rates
// succeeds.
const hangs = `
if [[ $2 == *Rates* ]]; then
    echo '=== ATTR  TestRates rate 1.5 "GB/s'
    echo '    [3] === ATTR  TestRates/a open refused: it is'
    exit
fi
trap '' TERM
setsid bash -c 'echo $$ >> '$pids'; sleep 1000' &
echo $$ >> $pids
while :; do sleep 1; done
`

// The check of GPUs runs its steps on a fake host, ends with code 1 if one fails, and leaves a page. A step that hangs
// stops no other step, and leaves no process.
func TestGPUCheck(t *testing.T) {
	for _, c := range []struct {
		name, kernels, args string
		code                int
		page, json          []string
	}{
		{name: "all is well", args: "train check", page: []string{"## check: ok", "## train: ok", "a fake host"},
			json: []string{`"step":"check","verdict":"ok"`, `"step":"train","verdict":"ok"`}},
		{name: "a program is missing", args: "check kernels", code: 1,
			page: []string{"## check: ok", "## kernels: FAILED", "kernels.test"}},
		{name: "no test of that name", kernels: "echo testing: warning: no tests to run", args: "kernels", code: 1,
			page: []string{"## kernels: FAILED", "no tests to run"}},
		{name: "no such step", args: "nothing", code: 64},
		{name: "no such time", args: "--limit soon", code: 64},
		{name: "a step hangs", kernels: hangs, args: "--limit 2 kernels rates", code: 1,
			page: []string{"## kernels: HANGS", "no end after 2 s", "## rates: ok", "TestRates rate 1.5 GB/s",
				"TestRates/a open refused: it is"},
			json: []string{`{"step":"rates","verdict":"ok","seconds":0,"figures":[` +
				`{"figure":"TestRates rate","value":1.5,"unit":"GB/s"},{"figure":"TestRates/a open","value":"refused: it is"}]}`}},
		{name: "out of time", kernels: hangs, args: "--budget 5 check kernels rates train",
			page: []string{"## check: ok", "## kernels: cut off", "## rates: not run",
				"out of time: kernels rates train"}, json: []string{`"step":"train","verdict":"not run"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, page, pids, empty := gpuCheck(t, c.kernels, c.args)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d\n%s", got, c.code, out)
			}
			contains(t, page, c.page)
			contains(t, strings.TrimSuffix(page, ".md")+".json", c.json)
			ended(t, pids)
			empty()
		})
	}
}

func contains(t *testing.T, file string, words []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	for _, want := range words {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in %s: %v\n%s", want, file, err, text)
		}
	}
}

// ended checks that the processes whose numbers are in a file have ended.
func ended(t *testing.T, pids string) {
	t.Helper()
	text, _ := os.ReadFile(pids)
	for _, pid := range strings.Fields(string(text)) {
		if status, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && len(status) > 0 {
			t.Errorf("process %s still runs: %q", pid, status)
		}
	}
}

// TestGPUCheckStopped: an interrupted check ends its step, and leaves its page.
func TestGPUCheckStopped(t *testing.T) {
	cmd, page, pids, empty := gpuCheck(t, hangs, "check kernels train")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer limit.Stop()
	for text := []byte(nil); bytes.Count(text, []byte("\n")) < 2; time.Sleep(20 * time.Millisecond) {
		text, _ = os.ReadFile(pids)
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatal("it ended before its second step")
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit code %d, want 130", got)
	}
	contains(t, page, []string{"## check: ok", "## kernels: cut off", "stopped: kernels train"})
	ended(t, pids)
	empty()
}
