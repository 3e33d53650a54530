package shm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/transporttest"
)

func testSession() *netconn.Session {
	return sessionOf(testKey, "job", sha256.Sum256([]byte("layout")))
}

func sessionOf(key []byte, jobID string, digest [sha256.Size]byte) *netconn.Session {
	s, err := newSession(key, jobID, digest)
	if err != nil {
		panic(err)
	}
	return s
}

// serve is the leader's side for 4 ranks, up to the welcome.
func serve(c net.Conn, s *netconn.Session) (member int, err error) {
	n, err := s.Accept(c, func(h *netconn.Hello) error { return expects(h, &transport.Layout{Size: 4}) })
	if err != nil {
		return 0, err
	}
	return n.Peer(), n.Welcome()
}

// shake runs both sides over a pipe.
func shake(t *testing.T, leader, member *netconn.Session, rank int, tamper func(net.Conn) net.Conn) (got int, leaderErr,
	memberErr error) {
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
		_, err := member.Dial(context.Background(), b, netconn.Hello{From: rank})
		_ = b.Close()
		done <- err
	}()
	if got, leaderErr = serve(a, leader); leaderErr != nil {
		_ = a.Close()
	}
	return got, leaderErr, <-done
}

func TestHandshake(t *testing.T) {
	got, err, err2 := shake(t, testSession(), testSession(), 2, nil)
	if got != 2 || err != nil || err2 != nil {
		t.Errorf("rank %d, %v, %v", got, err, err2)
	}
}

// TestHandshakeRejects: whatever differs between the two sides, the member
// finds out first, since the leader proves itself first.
func TestHandshakeRejects(t *testing.T) {
	layout := sha256.Sum256([]byte("layout"))
	for name, other := range map[string]*netconn.Session{
		"key":    sessionOf(make([]byte, KeyBytes), "job", layout),
		"job":    sessionOf(testKey, "job2", layout),
		"layout": sessionOf(testKey, "job", sha256.Sum256([]byte("another"))),
	} {
		t.Run(name, func(t *testing.T) {
			_, err, err2 := shake(t, testSession(), other, 2, nil)
			if err == nil || !errors.Is(err2, netconn.ErrKey) {
				t.Errorf("leader %v, member %v, want ErrKey on the member", err, err2)
			}
		})
	}
	for _, member := range []int{0, 4, 1 << 31} {
		if _, err, _ := shake(t, testSession(), testSession(), member, nil); err == nil {
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

// What a member says in the handshake of package netconn: its hello and its proof.
const helloBytes, proofBytes = 80, 32

// helloFrom is a hello to rank 0.
func helloFrom(rank int) []byte {
	return append(append([]byte("trnc\x01\x00\x00\x00\x00\x00\x00"), byte(rank)), make([]byte, helloBytes-12)...)
}

// TestHandshakeBits: no bit of the member's messages can be changed.
func TestHandshakeBits(t *testing.T) {
	for at := 0; at < 8*(helloBytes+proofBytes); at += 5 {
		_, err, _ := shake(t, testSession(), testSession(), 2, func(c net.Conn) net.Conn { return &bitFlip{Conn: c, at: at} })
		if err == nil {
			t.Fatalf("bit %d changed, and the leader agrees", at)
		}
	}
}

// TestReplay: the bytes of one connection are worth nothing on another.
func TestReplay(t *testing.T) {
	var wire bytes.Buffer
	_, err, _ := shake(t, testSession(), testSession(), 2, func(c net.Conn) net.Conn { return &tap{c, &wire} })
	if err != nil {
		t.Fatal(err)
	}
	replay := &script{in: bytes.NewReader(wire.Bytes())}
	if _, err := serve(replay, testSession()); !errors.Is(err, netconn.ErrKey) {
		t.Errorf("replayed connection: %v, want ErrKey", err)
	}
}

type tap struct {
	net.Conn
	to io.Writer
}

func (t *tap) Write(b []byte) (int, error) { _, _ = t.to.Write(b); return t.Conn.Write(b) }

// script is a peer that says what it was given and listens to nothing.
type script struct {
	net.Conn
	in *bytes.Reader
}

func (s *script) Read(b []byte) (int, error)    { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error)   { return len(b), nil }
func (s *script) SetDeadline(_ time.Time) error { return nil }
func (s *script) Close() error                  { return nil }

// FuzzHandshake: no bytes make either side panic, agree, or read more than the
// handshake has.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte{})
	f.Add(append(helloFrom(2), make([]byte, 132)...))
	f.Add(bytes.Repeat([]byte{0xFF}, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{in: bytes.NewReader(b)}
		if r, err := serve(s, testSession()); err == nil {
			t.Fatalf("let rank %d in", r)
		}
		if read := len(b) - s.in.Len(); read > helloBytes+proofBytes {
			t.Fatalf("leader read %d bytes", read)
		}
		s = &script{in: bytes.NewReader(b)}
		if _, err := testSession().Dial(context.Background(), s, netconn.Hello{From: 2}); err == nil {
			t.Fatal("member agrees")
		}
		if read := len(b) - s.in.Len(); read > 80 {
			t.Fatalf("member read %d bytes", read)
		}
	})
}

// FuzzReport: the decoder accepts what the encoder writes, and what it accepts is in range.
func FuzzReport(f *testing.F) {
	ok := report{Text: "@treerun-x"}
	f.Add(ok.encode())
	rings := report{Bell: "treerun-y", Text: ok.Text}
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
		if len(r.Text) <= maxReportText && (err != nil || again != r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if _, err := decodeReports([][]byte{b, b}, new(transport.Layout).Member); (err != nil) != r.Failed {
			t.Fatalf("reports %+v: %v", r, err)
		}
	})
}

// TestFloodedDoor: the leader's socket closes while connections come without end.
func TestFloodedDoor(t *testing.T) {
	defer checkLeft(t)()
	l := transporttest.Pair(2, 64)
	d, address, err := listen(testSession(), &l, -1)
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
				if c, err := net.Dial("unix", address); err == nil {
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
	<-came
	closed := make(chan bool)
	go func() { d.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(transporttest.Limit):
		t.Error("close does not end while connections come")
	}
	close(stop)
	flood.Wait()
}
