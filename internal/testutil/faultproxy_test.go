package testutil

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

const limit = 2 * time.Minute

// ends returns both ends of a connection through p, which joins them on the first byte.
func ends(t *testing.T, up, down Fault) (p *Proxy, near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p = NewProxy(t, ln.Addr().String())
	p.Next(up, down)
	c, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near = c.(*net.TCPConn)
	if far, err = ln.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far} {
		c.SetDeadline(time.Now().Add(limit))
		t.Cleanup(func() { c.Close() })
	}
	return p, near, far
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func wantBytes(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes, error %v, equal %t", n, len(want), err, bytes.Equal(got, want))
	}
}

// wantSilence fails if data arrives within 50 ms.
func wantSilence(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	var slow net.Error
	if n != 0 || !errors.As(err, &slow) || !slow.Timeout() {
		t.Fatalf("%d bytes came, error %v", n, err)
	}
	c.SetReadDeadline(time.Now().Add(limit))
}

func wantError(t *testing.T, c net.Conn, want error) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Fatalf("read %d bytes and %v, want %v", n, err, want)
	}
}

func TestNothingHappens(t *testing.T) {
	_, near, far := ends(t, Fault{}, Fault{})
	data := pattern(1 << 20)
	for _, c := range [][2]*net.TCPConn{{near, far}, {far, near}} {
		go c[0].Write(data)
		wantBytes(t, c[1], data)
	}
	near.CloseWrite()
	wantError(t, far, io.EOF)
	send(t, far, data[:5])
	wantBytes(t, near, data[:5])
}

func TestDelayKeepsOrder(t *testing.T) {
	const delay = 30 * time.Millisecond
	_, near, far := ends(t, Fault{Delay: delay}, Fault{})
	data := pattern(300_000)
	begin := time.Now()
	go func() {
		for b := data; len(b) > 0; b = b[100:] { // one delay each would take 90 s
			near.Write(b[:100])
		}
	}()
	wantBytes(t, far, data[:1])
	if d := time.Since(begin); d < delay {
		t.Errorf("the first byte came after %v", d)
	}
	wantBytes(t, far, data[1:])
}

func TestPieces(t *testing.T) {
	_, near, far := ends(t, Fault{Piece: 1}, Fault{})
	data := pattern(5000)
	send(t, near, data)
	wantBytes(t, far, data)
}

func TestBlackhole(t *testing.T) {
	_, near, far := ends(t, Fault{After: 10, Kind: Blackhole}, Fault{})
	data := pattern(1 << 20)
	send(t, near, data) // all of it is read at the other end
	wantBytes(t, far, data[:10])
	wantSilence(t, far)
	send(t, far, data[:7])
	wantBytes(t, near, data[:7])
}

func TestStallHoldsBack(t *testing.T) {
	_, near, far := ends(t, Fault{After: 3, Kind: Stall}, Fault{})
	data := pattern(64 << 20)
	near.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := near.Write(data); err == nil {
		t.Errorf("all %d bytes were accepted, though no process reads", n)
	}
	wantBytes(t, far, data[:3])
	wantSilence(t, far)
}

func TestStallEnds(t *testing.T) {
	const hold = 100 * time.Millisecond
	_, near, far := ends(t, Fault{After: 3, Kind: Stall, Hold: hold}, Fault{})
	data := pattern(100_000)
	begin := time.Now()
	go near.Write(data)
	wantBytes(t, far, data[:4])
	if d := time.Since(begin); d < hold {
		t.Errorf("the fourth byte came after %v", d)
	}
	wantBytes(t, far, data[4:])
}

func TestReset(t *testing.T) {
	_, near, far := ends(t, Fault{After: 4, Kind: Reset}, Fault{})
	send(t, near, pattern(9))
	wantBytes(t, far, pattern(4))
	wantError(t, far, syscall.ECONNRESET)
	wantError(t, near, syscall.ECONNRESET)
}

func TestResetOfAll(t *testing.T) {
	p, near, far := ends(t, Fault{}, Fault{})
	send(t, near, pattern(4))
	wantBytes(t, far, pattern(4))
	p.Reset()
	wantError(t, far, syscall.ECONNRESET)
	wantError(t, near, syscall.ECONNRESET)
}

func TestHalfClose(t *testing.T) {
	_, near, far := ends(t, Fault{After: 4, Kind: HalfClose, Delay: 20 * time.Millisecond}, Fault{})
	send(t, near, pattern(9))
	wantBytes(t, far, pattern(4))
	wantError(t, far, io.EOF)
	send(t, far, pattern(6))
	wantBytes(t, near, pattern(6))
	send(t, near, pattern(5)) // these bytes are lost, without an error
}

func TestClose(t *testing.T) {
	_, near, far := ends(t, Fault{}, Fault{After: 2, Kind: Close})
	send(t, far, pattern(2))
	wantBytes(t, near, pattern(2))
	wantError(t, near, io.EOF)
	wantError(t, far, io.EOF)
}

func TestDuplicate(t *testing.T) {
	_, near, far := ends(t, Fault{After: 10, Kind: Duplicate, Bytes: 4}, Fault{})
	data := pattern(20)
	send(t, near, data)
	wantBytes(t, far, append(append([]byte(nil), data[:10]...), data[6:]...))
	wantSilence(t, far)
}

func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	p := NewProxy(t, ln.Addr().String())
	c, err := net.Dial("tcp", p.Addr().String())
	if err == nil { // the proxy may be faster
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v", err)
	}
}

// A client that resets its end resets the other end.
func TestResetFromOutside(t *testing.T) {
	_, near, far := ends(t, Fault{}, Fault{})
	near.SetLinger(0)
	near.Close()
	wantError(t, far, syscall.ECONNRESET)
}

func TestSixth(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	Need(t, IPv6, err)
	defer ln.Close()
	if p := NewProxy(t, ln.Addr().String()); !p.Addr().Addr().Is6() {
		t.Errorf("listens at %v", p.Addr())
	}
}
