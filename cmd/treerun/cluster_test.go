//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// cluster is a cluster of a scheduler in hosts of its own: real daemons, with configuration, keys and state in a folder
// of the test.
type cluster struct {
	t     *testing.T
	hosts *nethosts.Hosts
	dir   string
	bin   string   // folder with treerun and hello
	env   []string // of daemons and commands
}

const clusterNodes = 2

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := &cluster{t: t, hosts: nethosts.Up(t, clusterNodes, nethosts.Options{}), dir: t.TempDir(),
		bin: filepath.Dir(namedTreerun(t))}
	if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil { // munged's socket is for all users
		t.Fatal(err)
	}
	build(t, "../../examples/hello", filepath.Join(s.bin, "hello"))
	return s
}

func (s *cluster) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

// daemon starts a daemon on a host, which ends with the test.
func (s *cluster) daemon(i int, name string, args ...string) {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", filepath.Base(name), i)))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.hosts.Command(i, name, args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.hosts.Kill(i); err != nil {
			s.t.Error(err)
		}
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && s.t.Failed() {
			s.t.Logf("%s on host %d:\n%s", name, i, text)
		}
	})
}

func (s *cluster) waitUntil(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(60 * time.Second); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// run runs a command of the scheduler on host 0, with treerun and hello in PATH.
func (s *cluster) run(name string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := s.hosts.Command(0, name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), s.env...), "PATH="+s.bin+":"+os.Getenv("PATH"), "HOME="+s.dir,
		"TREERUN_KEY_DIR="+s.dir)
	var out, logs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &logs
	killer := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	err := cmd.Run()
	if e := new(exec.ExitError); err != nil && !errors.As(err, &e) {
		s.t.Fatalf("%s: %v", name, err)
	}
	return out.String(), logs.String(), cmd.ProcessState.ExitCode()
}

// must runs a command, which must succeed, and returns its standard output.
func (s *cluster) must(name string, args ...string) string {
	s.t.Helper()
	out, logs, code := s.run(name, args...)
	if code != 0 {
		s.t.Fatalf("%s %q: code %d\n%s%s", name, args, code, out, logs)
	}
	return out
}

// waitIdle waits until nothing of a job is left on any node.
func (s *cluster) waitIdle() {
	s.t.Helper()
	s.waitUntil("the end of all ranks", func() bool {
		for i := range clusterNodes {
			pids, err := s.hosts.Pids(i)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, pid := range pids {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if strings.HasPrefix(string(line), "treerun\x00") || strings.Contains(string(line), "sleep\x00") ||
					strings.Contains(string(line), "/hello\x00") {
					return false
				}
			}
		}
		return true
	})
}
