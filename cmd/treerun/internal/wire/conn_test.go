//go:build linux

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// connPair returns both ends of a connection that has begun.
func connPair(t *testing.T) (launcher, agent *Conn) {
	t.Helper()
	a, b := net.Pipe()
	return connPairOver(t, a, b)
}

// connPairOver is joined over the given connection.
func connPairOver(t *testing.T, a, b io.ReadWriteCloser) (launcher, agent *Conn) {
	t.Helper()
	launcher, agent = new(Conn), new(Conn)
	begun := make(chan error, 1)
	go func() { begun <- agent.Begin(b, b, nil) }()
	if err := errors.Join(launcher.Begin(a, a, frame(&Finish{})), <-begun); err != nil {
		t.Fatal(err)
	}
	if got, err := agent.Read(); err != nil || kindOf(got.Body) != kindOf(&Finish{}) {
		t.Fatalf("first %+v, %v", got, err)
	}
	t.Cleanup(func() { launcher.Close(); agent.Close() })
	return launcher, agent
}

// stream opens a stream from an end to the other.
func stream(t *testing.T, from, to *Conn) (out, in net.Conn) {
	t.Helper()
	came := make(chan net.Conn, 1)
	go to.Serve(func(_ *Frame, s net.Conn) { came <- s })
	out, err := from.Stream(&Frame{3, &Stream{Rank: 3, Number: Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	return out, <-came
}

// No more bytes of a stream are under way than its window, and frames still arrive then; the rest arrives when the
// other side reads, and the sender waits for that.
func TestStreamWaitsForReader(t *testing.T) {
	launcher, agent := connPair(t)
	out, in := stream(t, agent, launcher)
	src := strings.NewReader(strings.Repeat("x", 5*StreamWindow))
	relayed := make(chan struct{})
	go func() {
		Relay(out, struct{ io.Reader }{src})
		close(relayed)
	}()
	time.Sleep(50 * time.Millisecond)
	agent.Send(frame(&RanksExited{}))
	if f, err := launcher.Read(); err != nil || kindOf(f.Body) != kindOf(&RanksExited{}) {
		t.Fatalf("%+v, %v", f, err)
	}
	if n := 5*StreamWindow - src.Len(); n > StreamWindow+64<<10 {
		t.Errorf("%d bytes are under way", n)
	}
	got, err := io.ReadAll(in)
	if err != nil || len(got) != 5*StreamWindow {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	select {
	case <-relayed:
		t.Error("relayed before the reader has closed")
	case <-time.After(20 * time.Millisecond):
	}
	in.Close()
	<-relayed
}

// A stream ends with its connection: the data received before can be read, and the sender does not block.
func TestStreamOfLostConnection(t *testing.T) {
	launcher, agent := connPair(t)
	out, in := stream(t, agent, launcher)
	relayed := make(chan struct{})
	go func() {
		Relay(out, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 5*StreamWindow))})
		close(relayed)
	}()
	time.Sleep(50 * time.Millisecond)
	agent.Close()
	<-relayed
	if got, err := io.ReadAll(in); err != nil || len(got) == 0 {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	if _, err := launcher.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// Data that no agent of treerun sends ends the connection, and is not taken for its end.
func TestProtocolErrors(t *testing.T) {
	for name, sent := range map[string][]byte{
		"text":              []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"unknown version":   {9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		"unknown type":      {0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		"beyond the window": binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, 0, 0, 0, 1}, 1<<31),
		"no frame":          append([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9}, bytes.Repeat([]byte{0xff}, 9)...),
	} {
		a, b := net.Pipe()
		go func() { // ends with b
			_, _ = b.Read(make([]byte, 1)) // the stream is open: data received earlier would be dropped
			go b.Write(sent)
			_, _ = io.Copy(io.Discard, b)
		}()
		c := new(Conn)
		err := c.Begin(a, a, frame(&Finish{}))
		if err == nil {
			_, err = c.Read()
		}
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		b.Close()
	}
}

// dropWriter is an end of a connection that drops all writes once drop is set.
type dropWriter struct {
	net.Conn
	drop atomic.Bool
}

func (d *dropWriter) Write(p []byte) (int, error) {
	if d.drop.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

// A peer that sends only answers is not silent, nor is a launcher that is stopped and has announced it; one that does
// not answer any more is.
func TestHeartbeat(t *testing.T) {
	a, b := net.Pipe()
	from := &dropWriter{Conn: a}
	launcher, agent := connPairOver(t, from, b)
	var ticks atomic.Int64
	silent := make(chan bool, 1)
	go func() { silent <- agent.Watch(20*time.Millisecond, 5, func() { ticks.Add(1) }) }()
	alive := func(what string) {
		t.Helper()
		for from := ticks.Load(); ticks.Load() < from+15; time.Sleep(time.Millisecond) {
			select {
			case <-silent:
				t.Fatalf("a launcher that %s is given up", what)
			default:
			}
		}
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		launcher.Send(frame(&Signal{s}))
		if f, err := agent.Read(); err != nil || kindOf(f.Body) != kindOf(&Signal{}) {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	alive("is there")
	signal(syscall.SIGTSTP)
	from.drop.Store(true)
	alive("is stopped")
	from.drop.Store(false)
	signal(syscall.SIGUSR1)
	from.drop.Store(true)
	alive("has not been continued")
	from.drop.Store(false)
	signal(syscall.SIGCONT)
	begin := ticks.Load()
	from.drop.Store(true)
	if !<-silent {
		t.Error("the connection has ended")
	}
	if n := ticks.Load() - begin; n < 5 {
		t.Errorf("given up after %d heartbeats", n)
	}
}

// A connection that has ended is not silent.
func TestHeartbeatOfLostConnection(t *testing.T) {
	launcher, agent := connPair(t)
	launcher.Close()
	if agent.Watch(time.Millisecond, 1<<30, func() {}) {
		t.Error("it is silent")
	}
}

func frame(b Body) *Frame { return &Frame{0, b} }
