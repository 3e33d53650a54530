package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// Each benchmark has two processes; the second is this executable again, with its ends of the connections from
// descriptor 3 on and the name and arguments of the body in this variable.
const envBench = "TREERUN_TCP_BENCH"

// body is the function that both processes run: sockets are the connections to the other process.
type body func(socket *net.TCPConn, n, size int, first bool) error

var bodies = map[string]body{
	"links":        linksPingPong,
	"bare":         barePingPong,
	"net.Conn":     connPingPong,
	"stream links": linksStream,
	"stream conn":  connStream,
}

// BenchmarkPingPong measures one round trip of 8 bytes over the loopback: over
// links; over the same sockets with bare system calls, which is what links can
// reach at best; and over net.Conn.
func BenchmarkPingPong(b *testing.B) {
	for _, name := range []string{"links", "bare", "net.Conn"} {
		b.Run(name, func(b *testing.B) { twoProcesses(b, name, 8) })
	}
}

// BenchmarkStream measures one direction, by chunks: over links, copied in and
// not copied out; and over net.Conn.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{32 << 10, 128 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("links/size=%dK", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			twoProcesses(b, "stream links", size)
		})
		b.Run(fmt.Sprintf("net.Conn/size=%dK", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			twoProcesses(b, "stream conn", size)
		})
	}
}

func twoProcesses(b *testing.B, name string, size int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%d,%d", envBench, name, b.N, size))
	cmd.Stderr = os.Stderr
	mine, y := tcpPair(b)
	f, err := y.File()
	if err != nil {
		b.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{f}
	_ = y.Close()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	// The other process sends a byte when it has started.
	if _, err := io.ReadFull(mine, make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	err = bodies[name](mine, b.N, size, true)
	b.StopTimer()
	if err := errors.Join(err, cmd.Wait()); err != nil {
		b.Fatal(err)
	}
}

// benchChild is the other process.
func benchChild(arg string) error {
	parts := strings.Split(arg, ",")
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(parts[2])
	if err != nil {
		return err
	}
	f := os.NewFile(3, "socket")
	c, err := net.FileConn(f)
	if err != nil {
		return err
	}
	_ = f.Close()
	socket := c.(*net.TCPConn)
	if _, err := socket.Write([]byte{1}); err != nil {
		return err
	}
	return bodies[parts[0]](socket, n, size, false)
}

// benchEnd makes links over the sockets.
func benchEnd(c *net.TCPConn, size int, first bool) (e *Endpoint, s transport.Sender, r transport.Receiver,
	err error) {
	runtime.LockOSThread()
	peer := 0
	if first {
		peer = 1
	}
	fd, err := osys.TakeSocket(c)
	if err != nil {
		return nil, nil, nil, err
	}
	l := testutil.Pair(8, max(size, 64))
	e, err = endpointOf(configOf(1-peer, l), map[int]socket{peer: {fd: fd, wire: plain(fd)}})
	if err != nil {
		return nil, nil, nil, err
	}
	s, err = e.Sender(0, peer)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err = e.Receiver(0, peer)
	return e, s, r, err
}

// benchPoll polls as the executor does: it yields at once, since a poll is a
// system call and the other process may share the core, and then sleeps.
func benchPoll(e *Endpoint, poll func() (bool, error)) error {
	bell := e.Bell()
	for turn := 0; ; turn++ {
		if ok, err := poll(); ok || err != nil {
			return err
		}
		if turn < 60 {
			bell.Yield()
			continue
		}
		bell.Prepare()
		if ok, err := poll(); ok || err != nil {
			bell.Cancel()
			return err
		}
		bell.Sleep(20 * time.Millisecond)
	}
}

func benchSend(e *Endpoint, s transport.Sender, n int) error {
	return benchPoll(e, func() (bool, error) {
		w, ok, err := s.TryReserve(n)
		if ok {
			clear(w)
			s.Commit(&call.Header{})
		}
		return ok, err
	})
}

func benchReceive(e *Endpoint, r transport.Receiver) error {
	return benchPoll(e, func() (bool, error) {
		var h call.Header
		_, ok, err := r.TryPeek(&h)
		if ok {
			r.Release()
		}
		return ok, err
	})
}

func linksPingPong(socket *net.TCPConn, n, size int, first bool) error {
	e, s, r, err := benchEnd(socket, size, first)
	for i := 0; i < 2*n && err == nil; i++ {
		if first == (i%2 == 0) {
			err = benchSend(e, s, size)
		} else {
			err = benchReceive(e, r)
		}
	}
	return errors.Join(err, e.Close())
}

func linksStream(socket *net.TCPConn, n, size int, first bool) error {
	e, s, r, err := benchEnd(socket, size, first)
	for i := 0; i < n && err == nil; i++ {
		if first {
			err = benchSend(e, s, size)
		} else {
			err = benchReceive(e, r)
		}
	}
	if err == nil && first { // until the other process has received everything
		err = benchReceive(e, r)
	} else if err == nil {
		err = benchSend(e, s, 8)
	}
	return errors.Join(err, e.Close())
}

// barePingPong moves the same number of bytes as a frame has.
func barePingPong(socket *net.TCPConn, n, size int, first bool) error {
	runtime.LockOSThread()
	fd, err := osys.TakeSocket(socket)
	if err != nil {
		return err
	}
	var v osys.Vectors
	v.Add(make([]byte, dataBytes+size+tailBytes))
	for i := range 2 * n {
		for {
			if first == (i%2 == 0) {
				_, err = v.Send(fd)
			} else {
				_, err = v.Recv(fd)
			}
			if !errors.Is(err, osys.ErrAgain) {
				break
			}
			new(osys.Yielder).Yield()
		}
	}
	return errors.Join(err, osys.CloseFD(fd))
}

func connPingPong(socket *net.TCPConn, n, size int, first bool) error {
	c, buf := socket, make([]byte, dataBytes+size+tailBytes)
	var err error
	for i := 0; i < 2*n && err == nil; i++ {
		if first == (i%2 == 0) {
			_, err = c.Write(buf)
		} else {
			_, err = io.ReadFull(c, buf)
		}
	}
	return errors.Join(err, c.Close())
}

func connStream(socket *net.TCPConn, n, size int, first bool) error {
	c, buf := socket, make([]byte, dataBytes+size+tailBytes)
	var err error
	for i := 0; i < n && err == nil; i++ {
		if first {
			_, err = c.Write(buf)
		} else {
			_, err = io.ReadFull(c, buf)
		}
	}
	if err == nil && first {
		_, err = io.ReadFull(c, buf[:1])
	} else if err == nil {
		_, err = c.Write(buf[:1])
	}
	return errors.Join(err, c.Close())
}
