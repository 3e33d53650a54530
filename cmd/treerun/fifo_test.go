//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// hangTimeout limits the time of a command that is given a FIFO, a device or
// another user's file. It detects a hang, and is no measure of speed.
const hangTimeout = 40 * time.Second

// runBounded runs a command that must end by itself, and returns its exit code and
// its output.
func runBounded(t *testing.T, env []string, command ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	hung := time.AfterFunc(hangTimeout, func() { cmd.Process.Kill() })
	text, err := cmd.CombinedOutput()
	if !hung.Stop() {
		t.Fatalf("%q has not ended:\n%s", command, text)
	}
	if e := new(exec.ExitError); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// hostileFiles returns files that block or mislead a program that trusts them, by the text of
// the error about them. Only root can make the last one.
func hostileFiles(t *testing.T, text string) map[string]func(name string) error {
	t.Helper()
	testutil.NotUnderRace(t, "treerun is built without the detector")
	kinds := map[string]func(string) error{
		"pipe":   func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"device": func(name string) error { return os.Symlink("/dev/zero", name) },
	}
	if os.Geteuid() == 0 {
		kinds["belongs to user 65534"] = func(name string) error {
			return errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chown(name, 65534, 65534))
		}
	}
	return kinds
}

// A FIFO without a writer, or a device, where a user names a file, is an error
// at once.
func TestNamedFiles(t *testing.T) {
	launcher, _ := chaosBinaries(t)
	for what, plant := range hostileFiles(t, "") {
		if strings.Contains(what, "belongs") {
			continue // users may name files of others
		}
		name := filepath.Join(t.TempDir(), "file")
		if err := plant(name); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"plan", "--graph", name}, {"sim", "--graph", name}, {"topo", "--graph", name},
			{"--hostfile", name, "true"},
		} {
			code, output := runBounded(t, nil, append([]string{launcher}, args...)...)
			if code == 0 || !strings.Contains(output, name) || !strings.Contains(output, what) {
				t.Errorf("%s as file of %q: code %d, want an error with the name and %q:\n%s", what, args, code, what, output)
			}
		}
	}
}

// The same, or another user's file, in place of a key is an error at once.
func TestKeyFiles(t *testing.T) {
	launcher, looper := chaosBinaries(t)
	for what, plant := range hostileFiles(t, strings.Repeat("0a", 32)) {
		dir := t.TempDir()
		name, own := filepath.Join(dir, "file"), filepath.Join(dir, "treerun", "key")
		if err := errors.Join(os.Mkdir(filepath.Dir(own), 0o700), plant(name), plant(own)); err != nil {
			t.Fatal(err)
		}
		seed := testutil.FreeAddress(t)
		alone := []string{"RANK=0", "WORLD_SIZE=2", "TREERUN_SEED=" + seed, "XDG_CONFIG_HOME=" + dir}
		for _, c := range []struct {
			env, command []string
		}{
			{nil, []string{launcher, "--nnodes", "2", "--node-rank", "0", "--seed", seed, "--key-file", name, looper}},
			{append(alone, "TREERUN_KEY_FILE="+name), []string{looper}},
			{alone, []string{looper}},
		} {
			code, output := runBounded(t, c.env, c.command...)
			if code == 0 || !strings.Contains(output, what) {
				t.Errorf("%s as key of %q: code %d, want an error with %q:\n%s", what, c.command, code, what, output)
			}
		}
	}
}

// The same in place of a cached measurement is replaced by a new measurement.
func TestCachedFiles(t *testing.T) {
	launcher, looper := chaosBinaries(t)
	cache := t.TempDir()
	env := []string{"XDG_CACHE_HOME=" + cache}
	run := func() {
		t.Helper()
		if code, output := runBounded(t, env, launcher, "-np", "2", looper, "-calls", "2"); code != 0 {
			t.Fatalf("code %d:\n%s", code, output)
		}
	}
	run()
	files, err := filepath.Glob(filepath.Join(cache, "treerun", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the job has cached nothing: %v", err)
	}
	for what, plant := range hostileFiles(t, "nonsense") {
		for _, file := range files {
			if err := errors.Join(os.Remove(file), plant(file)); err != nil {
				t.Fatal(err)
			}
		}
		run()
		for _, file := range files {
			if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() ||
				int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
				t.Errorf("%s in place of %s was not replaced: %v, %v", what, file, info, err)
			}
		}
	}
}
