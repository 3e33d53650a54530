//go:build linux

package netconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// club is an Acceptor that admits callers that send "open\n".
type club struct {
	*Acceptor
	addr string
	in   chan net.Conn

	mu      sync.Mutex
	refused []error
	now     atomic.Int64 // connections in Prove
}

var errPassword = errors.New("wrong password")

func openClub(t *testing.T, wait time.Duration, places int) *club {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c := &club{addr: ln.Addr().String(), in: make(chan net.Conn, 1000)}
	c.Acceptor = OpenAcceptor(AcceptorConfig{
		Wait: wait, Places: places,
		Prove: func(conn net.Conn) (func(), error) {
			c.now.Add(1)
			defer c.now.Add(-1)
			word := make([]byte, 5)
			if _, err := io.ReadFull(conn, word); err != nil {
				return nil, err
			}
			if string(word) != "open\n" {
				return nil, errPassword
			}
			return func() { c.in <- conn }, nil
		},
		Refused: func(_ net.Addr, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.refused = append(c.refused, err)
		},
	}, ln)
	t.Cleanup(func() {
		c.Close()
		c.Close() // a second call is allowed
		close(c.in)
		for conn := range c.in {
			conn.Close()
		}
	})
	return c
}

func (c *club) dial(t *testing.T, say string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(limit))
	io.WriteString(conn, say)
	return conn
}

// wantIn fails unless a caller is admitted, whose connection then has no deadline.
func (c *club) wantIn(t *testing.T) {
	t.Helper()
	select {
	case conn := <-c.in:
		conn.Write([]byte("x"))
		conn.SetReadDeadline(time.Now().Add(limit))
		conn.Close()
	case <-time.After(limit):
		t.Fatal("no connection was admitted")
	}
}

// gone fails unless the Acceptor closes conn.
func gone(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	var e net.Error
	if err == nil || errors.As(err, &e) && e.Timeout() {
		t.Errorf("the connection is still there: %v", err)
	}
}

func TestWhoKnowsTheWord(t *testing.T) {
	c := openClub(t, limit, 10)
	c.dial(t, "open\n")
	c.wantIn(t)
	gone(t, c.dial(t, "let me in"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) != 1 || !errors.Is(c.refused[0], errPassword) {
		t.Errorf("refused: %v", c.refused)
	}
}

// Silent and slow callers are dropped when their time is up.
func TestTimeIsUp(t *testing.T) {
	c := openClub(t, time.Second, 10)
	silent := c.dial(t, "")
	slow := c.dial(t, "")
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for { // never five bytes in time
			if _, err := slow.Write([]byte("o")); err != nil {
				return
			}
			select {
			case <-time.After(700 * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	gone(t, silent)
	gone(t, slow)
	close(stop)
	writing.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.refused {
		var e net.Error
		if !errors.As(err, &e) || !e.Timeout() {
			t.Errorf("refused: %v", err)
		}
	}
	if len(c.refused) != 2 {
		t.Errorf("refused: %v", c.refused)
	}
}

// A few places suffice for a caller to be admitted, regardless of the number of waiting callers, and dropped callers
// are not reported.
func TestCrowd(t *testing.T) {
	const places, callers = 8, 500
	c := openClub(t, limit, places)
	var all []net.Conn
	for range callers {
		all = append(all, c.dial(t, ""))
	}
	c.dial(t, "open\n")
	c.wantIn(t)
	// The admitted caller had one place.
	for _, conn := range all[:callers-places+1] {
		gone(t, conn)
	}
	for end := time.Now().Add(limit); c.now.Load() != places-1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) { // late goroutines would have noticed by now
			t.Fatalf("%d wait, want %d", c.now.Load(), places-1)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) > 0 {
		t.Errorf("refused: %v", c.refused[0])
	}
}

// The source with the most callers loses one, not the one that came first.
func TestTheLoudestSourceGivesWay(t *testing.T) {
	c := openClub(t, limit, 4)
	from := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		conn, err := d.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(limit))
		return conn
	}
	quiet := from("127.0.0.2")
	var loud []net.Conn
	for range 30 {
		loud = append(loud, from("127.0.0.3"))
	}
	gone(t, loud[0])
	io.WriteString(quiet, "open\n")
	c.wantIn(t)
}

func TestCloseEndsEverything(t *testing.T) {
	c := openClub(t, limit, 10)
	conn := c.dial(t, "op")
	for c.now.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	gone(t, conn)
	if late, err := net.Dial("tcp", c.addr); err == nil {
		late.Close()
		t.Error("it listens still")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) > 0 {
		t.Errorf("refused: %v", c.refused)
	}
}

func TestStrangersAreLoggedOnce(t *testing.T) {
	var text bytes.Buffer
	s := Refusals{Log: slog.New(slog.NewTextHandler(&text, nil))}
	for i := range 1000 {
		s.Refused(&net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(i))}, errPassword)
	}
	if got := text.String(); strings.Count(got, "level=WARN") != 1 ||
		!strings.Contains(got, "from=10.0.0.0:0 error=\"wrong password\"") ||
		!strings.Contains(got, "not from a rank of this job; later ones") || strings.Count(got, "\n") != 1 {
		t.Errorf("log:\n%s", got)
	}
}

// TestFlood: under an endless flood of callers, one with the password is admitted, and Close ends.
func TestFlood(t *testing.T) {
	c := openClub(t, time.Minute, 4)
	stop := make(chan bool)
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if conn, err := net.Dial("tcp", c.addr); err == nil {
					conn.Close()
				}
			}
		})
	}
	for in := false; !in; {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "open\n"); err != nil {
			t.Log(err) // it was dropped for one of the flood
		}
		select {
		case ours := <-c.in:
			in = true
			ours.Close()
		case <-time.After(time.Second):
		}
		conn.Close()
	}
	closed := make(chan bool)
	go func() { c.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(limit):
		t.Error("Close does not end while callers come")
	}
	close(stop)
	flood.Wait()
}

// Connections that end before they have proved anything may come from a peer.
func TestHangingUpIsNotLogged(t *testing.T) {
	var text bytes.Buffer
	s := Refusals{Log: slog.New(slog.NewTextHandler(&text, nil))}
	for _, err := range []error{errSilent, fmt.Errorf("%w: x", errNoProof)} {
		s.Refused(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, err)
	}
	if text.Len() > 0 {
		t.Errorf("log:\n%s", &text)
	}
}

// A listener that can no longer accept connections keeps the system's error for the report.
func TestFailed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broken := &brokenListener{Listener: ln, failed: make(chan bool, 2)}
	a := OpenAcceptor(AcceptorConfig{Places: 1}, broken)
	defer a.Close()
	a.wg.Wait()
	if err := a.Failed(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("error %v, want that of the listener", err)
	}
}

// brokenListener runs out of descriptors twice, and is then closed.
type brokenListener struct {
	net.Listener
	failed chan bool
}

func (b *brokenListener) Accept() (net.Conn, error) {
	select {
	case b.failed <- true:
	default:
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
}

// A flood of callers without the password makes the listener rest, and the system queue few of them. A caller with the
// password is admitted nevertheless; then as many are queued as before.
func TestFloodMakesTheListenerRest(t *testing.T) {
	c := openClub(t, time.Minute, 16)
	ln := c.Acceptor.listeners[0].(*net.TCPListener)
	queue := func() (size uint32) {
		if err := onSocket(ln, func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			size = info.Sacked // of a listener: length of its queue
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return size
	}
	before := queue()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var conns sync.WaitGroup
	defer conns.Wait()
	for range 4 {
		conns.Go(func() {
			for ctx.Err() == nil {
				if conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr); err == nil {
					conn.Close()
				}
			}
		})
	}
	const rests = 20
	begin := time.Now()
	for c.Acceptor.refused.Load() < rests*restAfter {
		time.Sleep(time.Millisecond)
	}
	if took, least := time.Since(begin), rests/2*restStep; took < least {
		t.Errorf("%d callers were refused within %v, want %v at least", rests*restAfter, took, least)
	}
	if n := queue(); n != restQueue || before <= restQueue {
		t.Errorf("the system queues %d connections in a flood, and %d before, want %d, and more", n, before, restQueue)
	}
	for in := false; !in; { // a caller of many may be dropped
		conn := c.dial(t, "open\n")
		select {
		case <-c.in:
			in = true
		case <-time.After(time.Second):
		}
		conn.Close()
	}
	cancel()
	conns.Wait()
	// What is left of the flood may be refused after a caller was authenticated: the next one ends the rests.
	for begin := time.Now(); queue() != before; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("the system queues %d connections after the flood, and %d before", queue(), before)
		}
		c.dial(t, "open\n")
		<-c.in
		c.dial(t, "").Close()
	}
}
