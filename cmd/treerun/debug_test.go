//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// startDebugged starts a job of two ranks, of which the second one is in the debugger, and returns the address of that.
func startDebugged(t *testing.T, args ...string) (l *launched, address string) {
	t.Helper()
	needDelve(t)
	program := filepath.Join(t.TempDir(), "hello")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/hello").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args = append([]string{"-np", "2", "--debug", "1", "--merge-stderr"}, args...)
	named := namedTreerun(t)
	l = startTreerun(t, func(c *exec.Cmd) { c.Path = named }, append(args, program)...)
	l.expect(1, "[1] treerun: rank 1 is in the debugger: dlv connect ")
	_, address, _ = strings.Cut(l.output[len(l.output)-1], "dlv connect ")
	address, _, _ = strings.Cut(address, " ")
	return l, address
}

func needDelve(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("dlv")
	testutil.Need(t, testutil.Delve, err)
}

// rankProcess returns a process of a rank.
func (l *launched) rankProcess() int {
	l.t.Helper()
	for _, pid := range processesWith(l.mark) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(env, []byte("\x00TREERUN_RANK=")) {
			return pid
		}
	}
	l.t.Fatal("no rank runs")
	return 0
}

// A rank in the debugger stands at a breakpoint for as long as its user wants, is shown there, and ends as without the
// debugger.
func TestDebug(t *testing.T) {
	const limit = time.Second
	begun := time.Now()
	l, address := startDebugged(t, "--timeout", limit.String(), "--stall-timeout", limit.String())
	client, err := jsonrpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := func(method string, args map[string]any) {
		t.Helper()
		if err := client.Call("RPCServer."+method, args, new(any)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	call("CreateBreakpoint", map[string]any{"Breakpoint": map[string]any{"functionName": "main.main"}})
	call("Command", map[string]any{"name": "continue"})
	time.Sleep(time.Until(begun.Add(limit + limit/2)))
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", l.rankProcess()))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(env), "TREERUN_JOB_ID=")
	id, _, _ = strings.Cut(id, "\x00")
	out, err := exec.Command("treerun", "status", id).CombinedOutput()
	const want = "rank 1 is in the debugger, in no call; its process "
	if text := string(out); err != nil || !strings.Contains(text, want) || !strings.Contains(text, "  debugger  ") {
		t.Errorf("the status has no %q: %v\n%s", want, err, text)
	}
	call("Command", map[string]any{"name": "continue"})
	l.checkEnd(0)
	l.checkStderr("no limit of time holds while a debugger has rank 1")
}

// A signal to stop, the end of the launcher and that of the debugger leave no process.
func TestDebugEnds(t *testing.T) {
	l, _ := startDebugged(t)
	l.signal(syscall.SIGTERM)
	l.checkEnd(128 + int(syscall.SIGTERM))
	l, _ = startDebugged(t)
	l.signal(syscall.SIGKILL)
	l.checkEnd(128 + int(syscall.SIGKILL))
	l, address := startDebugged(t, "-H", "a:1,b:1", "--launch-agent", hostAgent)
	client, err := jsonrpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Call("RPCServer.Detach", map[string]any{"Kill": true}, new(any)); err != nil {
		t.Error(err)
	}
	l.checkEnd(1)
	if !strings.Contains(strings.Join(l.output, "\n"), "rank 1: a client of the debugger has ended the program") {
		t.Errorf("the end of Delve is not named:\n%s", strings.Join(l.output, "\n"))
	}
}

// The failure of another rank does not end a rank in the debugger; its client does.
func TestDebugAfterFailure(t *testing.T) {
	l, address := startDebugged(t)
	for _, pid := range processesWith(l.mark) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(env, []byte("\x00TREERUN_RANK=0\x00")) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	client, err := jsonrpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	time.Sleep(time.Second) // others are stopped after less
	if err := client.Call("RPCServer.Detach", map[string]any{"Kill": true}, new(any)); err != nil {
		t.Error(err)
	}
	l.checkEnd(128 + int(syscall.SIGKILL))
	l.checkStderr("the job stays for the debugger of rank 1 (Ctrl-C ends it)")
}

// Where Delve is missing, the error names the way to install it.
func TestDebugWithoutDelve(t *testing.T) {
	l := startTreerun(t, func(c *exec.Cmd) { c.Env = append(c.Env, "PATH=/nowhere") }, "-np", "2", "--debug", "1",
		"/bin/sleep", "300")
	l.checkEnd(127)
	l.checkStderr("start rank 1 of 2: --debug needs Delve on the host of the rank", "go install")
	l = startTreerun(t, func(c *exec.Cmd) { c.Env = append(c.Env, "PATH=/nowhere") }, "-np", "2", "--debug", "1",
		"--dry-run", "/bin/sleep", "300")
	l.checkEnd(127)
	l.checkStderr("--debug needs Delve on the host of the rank", "go install")
}

// Of a program that Delve cannot debug nothing is run.
func TestDebugOfAnyProgram(t *testing.T) {
	needDelve(t)
	started := filepath.Join(t.TempDir(), "started")
	l := startTreerun(t, nil, "-np", "1", "--debug", "0", "/bin/sh", "-c", "touch "+started)
	l.checkEnd(126)
	l.checkStderr("start rank 0 of 1: --debug: Delve cannot debug /bin/sh: it is no program in Go", "not a script")
	stripped := filepath.Join(t.TempDir(), "hello")
	build := exec.Command("go", "build", "-ldflags=-w", "-o", stripped, "../../examples/hello")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l = startTreerun(t, nil, "-np", "1", "--debug", "0", stripped)
	l.checkEnd(126)
	l.checkStderr("it has no symbols (hint: build it without -ldflags=-s, -w or strip)")
	if _, err := os.Stat(started); err == nil {
		t.Error("the program has run")
	}
}

// Where the system kills Delve before the program runs, as for want of memory, the error does not name lines of Delve.
func TestDebugDelveKilled(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "dlv"), []byte("#!/bin/sh\nkill -9 $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "hello")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/hello").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l := startTreerun(t, func(c *exec.Cmd) { c.Env = append(c.Env, "PATH="+bin) }, "-np", "1", "--debug", "0", program)
	l.checkEnd(126)
	l.checkStderr("Delve cannot run", "signal: killed (hint: Delve needs hundreds of MiB of memory)")
}
