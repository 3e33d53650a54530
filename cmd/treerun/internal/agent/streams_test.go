package agent

import (
	"crypto/sha256"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/pipe"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// No more of a stream is under way than there is room for; the rest comes when
// the launcher has shown some.
func TestForwarderWaitsForRoom(t *testing.T) {
	reports := make(chan *wire.Output, 100)
	f := newForwarder(func(b wire.Body) { reports <- b.(*wire.Output) })
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	src, err := pipe.NewReader(fds[0], "rank")
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "rank")
	const total = 5 * wire.Window
	go func() {
		defer w.Close()
		if _, err := io.WriteString(w, strings.Repeat("x", total)); err != nil {
			t.Error(err)
		}
	}()
	f.add(3, wire.Stderr, src)
	got, away := 0, 0
	for {
		select {
		case o := <-reports:
			if o.Rank != 3 || o.Stream != wire.Stderr {
				t.Fatalf("%+v", o)
			}
			if len(o.Data) == 0 {
				f.wait()
				if got != total {
					t.Errorf("%d bytes came, want %d", got, total)
				}
				return
			}
			got, away = got+len(o.Data), away+len(o.Data)
			if away > wire.Window {
				t.Fatalf("%d bytes are under way", away)
			}
		case <-time.After(50 * time.Millisecond): // it waits for us
			f.taken(&wire.Taken{Rank: 3, Stream: wire.Stderr, Bytes: away})
			away = 0
		}
	}
}

// A forwarder that nobody listens to ends.
func TestForwarderAbandoned(t *testing.T) {
	f := newForwarder(func(wire.Body) {})
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	src, err := pipe.NewReader(fds[0], "rank")
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "rank")
	defer w.Close()
	go io.WriteString(w, strings.Repeat("x", 5*wire.Window)) // fails when the stream is closed
	f.add(0, wire.Stdout, src)
	time.Sleep(20 * time.Millisecond)
	f.abandon()
	f.wait()
}

// What the launcher sends comes to rank 0 in order, and its end.
func TestInput(t *testing.T) {
	consumed := make(chan int, 10)
	in, r, err := newInput(func(b wire.Body) { consumed <- b.(*wire.Consumed).Bytes })
	if err != nil {
		t.Fatal(err)
	}
	in.add([]byte("one "))
	in.add([]byte("two"))
	in.add(nil)
	if got, err := io.ReadAll(r); err != nil || string(got) != "one two" {
		t.Errorf("%q, %v", got, err)
	}
	if n := <-consumed + <-consumed; n != 7 {
		t.Errorf("%d bytes are told", n)
	}
}

// A program that comes in pieces can be run; one that was changed on its way is
// refused.
func TestPushedProgram(t *testing.T) {
	text := []byte("#!/bin/sh\necho pushed\n")
	for name, sum := range map[string][32]byte{"whole": sha256.Sum256(text), "changed": sha256.Sum256(text[1:])} {
		var p program
		for i := range text {
			if whole, err := p.add(&wire.Push{Data: text[i : i+1]}); whole || err != nil {
				t.Fatal(whole, err)
			}
		}
		whole, err := p.add(&wire.Push{Sum: sum[:]})
		if (name == "whole") != (err == nil && whole) {
			t.Fatalf("%s: %v, %v", name, whole, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "did not arrive as it was sent") {
				t.Error(err)
			}
			continue
		}
		if err := p.find("any"); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(p.path); err != nil || string(got) != string(text) {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := p.memory.Write([]byte("x")); err == nil {
			t.Error("the program can be changed")
		}
		p.memory.Close()
	}
}
