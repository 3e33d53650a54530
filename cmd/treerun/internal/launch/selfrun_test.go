//go:build linux

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/internal/job"
)

// The test binary is also the launcher ("launcher SCENE"), its guard, and the ranks
// ("rank:scene SCENE"), since RunSelf runs its own executable once per process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case host.GuardCommand:
			os.Exit(cmdline.ExitCode(host.RunGuard(os.Args[2:])))
		case "launcher":
			os.Exit(launcher(os.Args[2]))
		case RankName("scene"):
			os.Exit(rank(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

var errFull = errors.New("no more, please")

// reluctant accepts one line and refuses the next.
type reluctant struct{ lines int }

func (r *reluctant) Write(p []byte) (int, error) {
	if r.lines += bytes.Count(p, []byte("\n")); r.lines > 1 {
		return 0, errFull
	}
	return os.Stdout.Write(p)
}

func launcher(scene string) int {
	j := &Job{Size: 3, GPUs: gpus.Request{Bind: gpus.None}, Settings: make(map[string]string),
		Screen: output.NewScreen(os.Stdout, os.Stderr)}
	var result io.Writer = os.Stdout
	if scene == "refused" {
		result = &reluctant{}
	}
	if scene == "settings" {
		j.Settings["color"] = "red"
	}
	code, err := RunSelf("scene", []string{scene}, j, result)
	if err != nil {
		fmt.Fprintln(os.Stderr, "launcher:", err)
		return cmdline.ExitCode(err)
	}
	return code
}

func rank(scene string) int {
	me := os.Getenv(job.EnvRank)
	switch {
	case scene == "fails" && me == "1":
		fmt.Fprintln(os.Stderr, "rank 1: no luck")
		return 7
	case scene == "fails":
		time.Sleep(5 * time.Minute) // until treerun stops it
	case scene == "refused":
		for me == "0" {
			if _, err := fmt.Println("line"); err != nil {
				time.Sleep(5 * time.Minute)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
	case scene == "large" && me == "0":
		for i := range 100_000 {
			fmt.Println("line", i)
		}
	case scene == "settings" && me == "0":
		fd := os.NewFile(3, "job file")
		f, err := job.ReadFile(fd)
		if err != nil {
			return 99
		}
		in, err := io.ReadAll(os.Stdin)
		delete(f.Settings, host.CoresSetting) // this machine's
		delete(f.Settings, host.CPUsSetting)
		fmt.Printf("%d ranks, %v, stdin %q %v, arguments %q\n", f.Size, f.Settings, in, err, os.Args)
	}
	return 0
}

func play(t *testing.T, scene string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "launcher", scene)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("for nobody"), &out, &err
	cmd.WaitDelay = time.Second
	if e := cmd.Start(); e != nil {
		t.Fatal(e)
	}
	killer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer killer.Stop()
	cmd.Wait() // the exit code is in the state
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// All output of rank 0 arrives, whole and in order.
func TestResult(t *testing.T) {
	stdout, stderr, code := play(t, "large")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) != 100_001 || lines[99_999] != "line 99999" || stderr != "" {
		t.Errorf("code %d, %d lines, stderr %q", code, len(lines), stderr)
	}
}

// The ranks have the arguments and the settings, and an empty stdin.
func TestSettings(t *testing.T) {
	stdout, stderr, code := play(t, "settings")
	const want = "3 ranks, map[color:red], stdin \"\" <nil>, arguments [\"treerun\" \"rank:scene\" \"settings\"]\n"
	if code != 0 || stdout != want || stderr != "" {
		t.Errorf("code %d, stdout %q, want %q, stderr %q", code, stdout, want, stderr)
	}
}

// A rank that fails ends the job with its code, and is reported.
func TestFailure(t *testing.T) {
	_, stderr, code := play(t, "fails")
	if code != 7 || !strings.Contains(stderr, "rank 1 failed first: it exited with code 7") ||
		!strings.Contains(stderr, "no luck") {
		t.Errorf("code %d, stderr:\n%s", code, stderr)
	}
}

// When the caller returns an error, the job ends with that error.
func TestRefusedResult(t *testing.T) {
	_, stderr, code := play(t, "refused")
	if code != cmdline.ExitInternal || !strings.Contains(stderr, "launcher: "+errFull.Error()) {
		t.Errorf("code %d, stderr:\n%s", code, stderr)
	}
}
