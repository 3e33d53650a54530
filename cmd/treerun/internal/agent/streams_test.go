//go:build linux

package agent

import (
	"crypto/sha256"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// Input from the launcher reaches rank 0 in order, with its end; also input that is sent
// before rank 0 is there.
func TestInput(t *testing.T) {
	a := &agent{stdin: make(chan net.Conn, 1), done: make(chan struct{})}
	ours, theirs := net.Pipe()
	a.stdin <- theirs
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for _, text := range []string{"one ", "two"} {
			if _, err := io.WriteString(ours, text); err != nil {
				t.Error(err)
			}
		}
		ours.Close()
	}()
	go a.copyStdin(w)
	if got, err := io.ReadAll(r); err != nil || string(got) != "one two" {
		t.Errorf("%q, %v", got, err)
	}
}

// Input that rank 0 does not read is dropped, and does not block the launcher.
func TestUnreadInput(t *testing.T) {
	a := &agent{stdin: make(chan net.Conn, 1), done: make(chan struct{})}
	ours, theirs := net.Pipe()
	a.stdin <- theirs
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	go a.copyStdin(w)
	if _, err := io.WriteString(ours, strings.Repeat("x", 1<<20)); err != nil {
		t.Error(err)
	}
	ours.Close()
}

// A program that arrives in pieces can be run; a program that was changed in transit is
// refused.
func TestPushedProgram(t *testing.T) {
	text := []byte("#!/bin/sh\necho pushed\n")
	for name, sum := range map[string][32]byte{"whole": sha256.Sum256(text), "changed": sha256.Sum256(text[1:])} {
		path, err := receiveProgram(iotest.OneByteReader(strings.NewReader(string(text))), sum[:])
		if (name == "whole") != (err == nil) {
			t.Fatalf("%s: %v", name, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "was damaged in transit") {
				t.Error(err)
			}
			continue
		}
		if found, err := findProgram(path, "any"); err != nil || found != path {
			t.Errorf("%s, %v; want %s", found, err, path)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(text) {
			t.Errorf("%q, %v", got, err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o700); err == nil {
			t.Error("the program can be changed")
		}
	}
}
