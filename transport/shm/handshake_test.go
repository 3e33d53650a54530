package shm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/segment"
	"github.com/treerun/treerun/transport/transporttest"
)

func mapOf(l transport.Layout) ([sha256.Size]byte, error) {
	m, err := segment.NewMap(l)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return m.Digest, nil
}

func testSession() session {
	return session{key: sessionKey(testKey, "job"), digest: sha256.Sum256([]byte("layout")), member: 2}
}

// four is a layout of four ranks.
func four() *transport.Layout { return &transport.Layout{Size: 4} }

// shake runs both sides over a pipe, the leader's for 4 ranks.
func shake(t *testing.T, leader, member session, tamper func(net.Conn) net.Conn) (got int, leaderErr, memberErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	for _, c := range []net.Conn{a, b} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if tamper != nil {
		b = tamper(b)
	}
	done := make(chan error, 1)
	go func() {
		err := joinHandshake(b, member)
		_ = b.Close()
		done <- err
	}()
	got, leaderErr = serveHandshake(a, leader, four())
	_ = a.Close()
	return got, leaderErr, <-done
}

func TestHandshake(t *testing.T) {
	got, err, err2 := shake(t, testSession(), testSession(), nil)
	if got != 2 || err != nil || err2 != nil {
		t.Errorf("rank %d, %v, %v", got, err, err2)
	}
}

// TestHandshakeRejects: whatever differs between the two sides, the member
// finds out first, since the leader proves itself first.
func TestHandshakeRejects(t *testing.T) {
	for name, change := range map[string]func(*session){
		"key":    func(s *session) { s.key = sessionKey(make([]byte, KeyBytes), "job") },
		"job":    func(s *session) { s.key = sessionKey(testKey, "job2") },
		"layout": func(s *session) { s.digest[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			other := testSession()
			change(&other)
			_, err, err2 := shake(t, testSession(), other, nil)
			if err == nil || !errors.Is(err2, errAuth) {
				t.Errorf("leader %v, member %v, want errAuth on the member", err, err2)
			}
		})
	}
	for _, member := range []int{0, 4, 1 << 31} {
		other := testSession()
		other.member = member
		if _, err, _ := shake(t, testSession(), other, nil); err == nil {
			t.Errorf("hello from rank %d of 4: no error", member)
		}
	}
}

// bitFlip changes one bit of what a member writes.
type bitFlip struct {
	net.Conn
	at, sent int
}

func (f *bitFlip) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	if i := f.at/8 - f.sent; i >= 0 && i < len(b) {
		b[i] ^= 1 << (f.at % 8)
	}
	f.sent += len(b)
	return f.Conn.Write(b)
}

// TestHandshakeBits: no bit of the member's messages can be changed.
func TestHandshakeBits(t *testing.T) {
	for at := 0; at < 8*(helloBytes+sha256.Size); at += 5 {
		_, err, _ := shake(t, testSession(), testSession(), func(c net.Conn) net.Conn { return &bitFlip{Conn: c, at: at} })
		if err == nil {
			t.Fatalf("bit %d changed, and the leader agrees", at)
		}
	}
}

// TestReplay: the bytes of one connection are worth nothing on another, and a
// member's proof cannot be made from the leader's.
func TestReplay(t *testing.T) {
	var wire bytes.Buffer
	_, err, _ := shake(t, testSession(), testSession(), func(c net.Conn) net.Conn { return &tap{c, &wire} })
	if err != nil {
		t.Fatal(err)
	}
	replay := &script{in: bytes.NewReader(wire.Bytes())}
	if _, err := serveHandshake(replay, testSession(), four()); !errors.Is(err, errAuth) {
		t.Errorf("replayed connection: %v, want errAuth", err)
	}
	s := testSession()
	if s.prove("leader") == s.prove("member") {
		t.Error("both roles have one proof")
	}
}

type tap struct {
	net.Conn
	to io.Writer
}

func (t *tap) Write(b []byte) (int, error) { _, _ = t.to.Write(b); return t.Conn.Write(b) }

// script is a peer that says what it was given and listens to nothing.
type script struct{ in *bytes.Reader }

func (s *script) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error) { return len(b), nil }

// FuzzHandshake: no bytes make either side panic, agree, or read more than the
// handshake has.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte{})
	f.Add(append(encodeHello(2, nonce{1}), make([]byte, 200)...))
	f.Add(bytes.Repeat([]byte{0xFF}, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{in: bytes.NewReader(b)}
		if r, err := serveHandshake(s, testSession(), four()); err == nil {
			t.Fatalf("let rank %d in", r)
		}
		if read := len(b) - s.in.Len(); read > helloBytes+sha256.Size {
			t.Fatalf("leader read %d bytes", read)
		}
		s = &script{in: bytes.NewReader(b)}
		if err := joinHandshake(s, testSession()); err == nil {
			t.Fatal("member agrees")
		}
		if read := len(b) - s.in.Len(); read > challengeBytes {
			t.Fatalf("member read %d bytes", read)
		}
	})
}

// FuzzHello and FuzzReport: decoders accept what encoders write, and what they
// accept is in range.
func FuzzHello(f *testing.F) {
	f.Add(encodeHello(1, nonce{1, 2, 3}), 4)
	f.Add(encodeHello(0, nonce{}), 4)
	f.Add([]byte("treeshm1"), 1<<16)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		r, n, err := decodeHello(b, &transport.Layout{Size: min(max(size, 1), transport.MaxRanks)})
		if err != nil {
			return
		}
		if r < 1 || r >= size || !bytes.Equal(encodeHello(r, n), b) {
			t.Fatalf("accepted rank %d of %d from %x", r, size, b)
		}
	})
}

func FuzzReport(f *testing.F) {
	ok := report{digest: sha256.Sum256(nil), text: "@treerun-x"}
	f.Add(ok.encode())
	rings := report{digest: ok.digest, bell: "treerun-y", text: ok.text}
	f.Add(rings.encode())
	bad := failure(errors.New("why"))
	f.Add(bad.encode())
	f.Add(binary.LittleEndian.AppendUint64(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReport(b)
		if err != nil {
			return
		}
		again, err := decodeReport(r.encode())
		if len(r.text) <= maxReportText && (err != nil || again != r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if _, err := decodeReports([][]byte{b, b}, new(transport.Layout).Member); (err != nil) != r.failed {
			t.Fatalf("reports %+v: %v", r, err)
		}
	})
}

// TestFloodedDoor: the leader's socket closes while connections come without end.
func TestFloodedDoor(t *testing.T) {
	defer checkLeft(t)()
	m, err := segment.NewMap(transporttest.Pair(2, 64))
	if err != nil {
		t.Fatal(err)
	}
	d, err := listen(testSession(), m)
	if err != nil {
		t.Fatal(err)
	}
	stop, came := make(chan bool), make(chan bool, 1)
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if c, err := net.Dial("unix", d.address()); err == nil {
					c.Close()
				}
				if n == 100 {
					select {
					case came <- true:
					default:
					}
				}
			}
		})
	}
	d.open(-1)
	<-came
	closed := make(chan bool)
	go func() { d.close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(transporttest.Limit):
		t.Error("close does not end while connections come")
	}
	close(stop)
	flood.Wait()
}
