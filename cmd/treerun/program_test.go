//go:build linux

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// writeFiles writes a tree of files into the working directory of the test.
func writeFiles(t *testing.T, tree map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range tree {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	writeFiles(t, map[string]string{
		"bin/tool":       "#!/bin/sh\n",
		"bin/plain":      "text",
		"here":           "#!/bin/sh\n",
		"folder/main.go": "package main\n",
	})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	for _, c := range []struct {
		name, path, folder string
		code               int
		text               string // part of the error
	}{
		{name: "tool", path: "bin/tool"},
		{name: "bin/tool", path: "bin/tool"},
		{name: "./folder", folder: "folder"},
		{name: ".", folder: "."},
		{name: "..", folder: ".."},
		{name: "folder", code: 127, text: "write ./folder"},
		{name: "here", code: 127, text: "write ./here"},
		{name: "nowhere", code: 127, text: "not found in PATH"},
		{name: "./nowhere", code: 127, text: "no such file"},
		{name: "plain", code: 126, text: "bin/plain, which is not executable"},
		{name: "bin/plain", code: 126, text: "chmod +x"},
		{name: "folder/main.go", code: 126, text: "give the folder of a Go program: ./folder"},
		{name: "here/below", code: 126, text: "not a directory"},
		{name: "/dev/null", code: 126, text: "not a regular file"},
	} {
		p, err := findProgram(c.name)
		if c.code != 0 {
			if err == nil || cmdline.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.text) ||
				!strings.Contains(err.Error(), c.name) {
				t.Errorf("findProgram(%s) = %v, code %d; want %q, code %d", c.name, err, cmdline.ExitCode(err), c.text, c.code)
			}
			continue
		}
		want := program{Name: c.name}
		if c.path != "" {
			want.Path = filepath.Join(dir, c.path)
		}
		if c.folder != "" {
			want.Folder = filepath.Join(dir, c.folder)
		}
		if err != nil || *p != want {
			t.Errorf("findProgram(%s) = %+v, %v; want %+v", c.name, p, err, want)
		}
	}
}

// A build that is interrupted stops, with all its children, and leaves no
// file once remove is called.
func TestBuildInterrupted(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	writeFiles(t, map[string]string{
		"bin/go": "#!/bin/sh\ntouch \"$GOTMPDIR/work\" && mktemp -d -t go-link-XXXXXX >/dev/null && echo started > " +
			"started\nsleep 60 &\nwait\n",
		"src/main.go": "package main\n",
	})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	p, err := findProgram("./src")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan os.Signal, 1)
	go func() {
		for { // the stand-in for go creates this file after its own, and a linker's
			if _, err := os.Stat("src/started"); err == nil {
				stop <- syscall.SIGTERM
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err = p.build(stop, output.NewScreen(os.Stdout, os.Stderr).Err, false)
	if cmdline.ExitCode(err) != 143 {
		t.Errorf("Build = %v, code %d; want an interrupt, code 143", err, cmdline.ExitCode(err))
	}
	for range 2 {
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left in TMPDIR: %v", left)
	}
}

func TestBuildWithoutGo(t *testing.T) {
	writeFiles(t, map[string]string{"src/main.go": "package main\n"})
	t.Setenv("PATH", "")
	p, err := findProgram("./src")
	if err != nil {
		t.Fatal(err)
	}
	err = p.build(nil, output.NewScreen(os.Stdout, os.Stderr).Err, false)
	if cmdline.ExitCode(err) != 125 || !strings.Contains(err.Error(), "building it needs the go command") {
		t.Errorf("Build = %v, code %d", err, cmdline.ExitCode(err))
	}
}
