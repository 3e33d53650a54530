//go:build linux

package rank

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/netconn"
)

// tape is a connection whose other side has sent all its bytes already.
type tape struct {
	net.Conn
	io.Reader
}

func (t *tape) Read(b []byte) (int, error)    { return t.Reader.Read(b) }
func (t *tape) Write(b []byte) (int, error)   { return len(b), nil }
func (t *tape) SetDeadline(_ time.Time) error { return nil }
func (t *tape) Close() error                  { return nil }

// testGate returns the authenticator of a rank that knows the attempt of its job.
func testGate(self int, key string) *authenticator {
	g := newAuthenticator([]byte(key), self, 8)
	g.attempt.Store(&netconn.Attempt{1, 2, 3})
	return g
}

// shake runs both sides of a handshake. changeUp and changeDown are applied to all bytes that one side sends.
func shake(client, server *authenticator, to int, changeUp, changeDown func([]byte) []byte) (peer int, ch channel,
	dialErr,
	acceptErr error) {
	return shakeOn(dataChannel, client, server, to, changeUp, changeDown)
}

func shakeOn(use channel, client, server *authenticator, to int, changeUp, changeDown func([]byte) []byte) (peer int,
	ch channel,
	dialErr, acceptErr error) {
	a, b := net.Pipe()
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(time.Now().Add(deadline))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var c *netconn.Conn
		if c, acceptErr = server.accept(changed{b, changeDown}); acceptErr == nil {
			peer, ch = c.Peer(), channel(c.Channel())
			acceptErr = c.Welcome()
		}
		if acceptErr != nil {
			b.Close()
		}
	}()
	h := netconn.Hello{From: client.self, To: to, Channel: uint16(use)}
	_, dialErr = client.session.Dial(context.Background(), changed{a, changeUp}, h)
	if dialErr != nil {
		a.Close()
	}
	<-done
	a.Close()
	b.Close()
	return peer, ch, dialErr, acceptErr
}

type changed struct {
	net.Conn
	change func([]byte) []byte
}

func (c changed) Write(b []byte) (int, error) {
	if c.change != nil {
		if _, err := c.Conn.Write(c.change(bytes.Clone(b))); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func TestHandshakeTellsBothSidesWhoIsThere(t *testing.T) {
	peer, ch, dialErr, acceptErr := shake(testGate(5, "k"), testGate(2, "k"), 2, nil, nil)
	if dialErr != nil || acceptErr != nil || peer != 5 || ch != dataChannel {
		t.Fatal(dialErr, acceptErr, peer, ch)
	}
}

func TestHandshakeWithAnotherKeyFailsOnBothSides(t *testing.T) {
	_, _, dialErr, acceptErr := shake(testGate(5, "k"), testGate(2, "l"), 2, nil, nil)
	if !errors.Is(dialErr, netconn.ErrKey) || acceptErr == nil {
		t.Fatal(dialErr, acceptErr)
	}
}

func TestHandshakeMeantForAnotherRankFails(t *testing.T) {
	_, _, dialErr, acceptErr := shake(testGate(5, "k"), testGate(2, "k"), 3, nil, nil)
	if dialErr == nil || acceptErr == nil {
		t.Fatal(dialErr, acceptErr)
	}
}

// A single bit changed on the way, in either direction, is noticed by one of the sides before any other data is sent.
func TestHandshakeFindsEveryChangedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up := rapid.Bool().Draw(t, "up")
		total := 80
		if up {
			total = helloBytes + proofBytes
		}
		bit := rapid.IntRange(0, 8*total-1).Draw(t, "bit")
		at := 0
		flip := func(b []byte) []byte {
			if i := bit/8 - at; i >= 0 && i < len(b) {
				b[i] ^= 1 << (bit % 8)
			}
			at += len(b)
			return b
		}
		var dialErr, acceptErr error
		if up {
			_, _, dialErr, acceptErr = shake(testGate(1, "k"), testGate(0, "k"), 0, flip, nil)
		} else {
			_, _, dialErr, acceptErr = shake(testGate(1, "k"), testGate(0, "k"), 0, nil, flip)
		}
		if dialErr == nil && acceptErr == nil {
			t.Fatalf("bit %d changed without an error", bit)
		}
		if up && acceptErr == nil {
			t.Fatal("the accepting side was taken in")
		}
	})
}

// The bytes of one handshake do not open the next one.
func TestHandshakeCannotBeReplayed(t *testing.T) {
	var written bytes.Buffer
	record := func(b []byte) []byte { written.Write(b); return b }
	if _, _, dialErr, acceptErr := shake(testGate(1, "k"), testGate(0, "k"), 0, record, nil); dialErr != nil ||
		acceptErr != nil {
		t.Fatal(dialErr, acceptErr)
	}
	_, err := testGate(0, "k").accept(&tape{Reader: bytes.NewReader(written.Bytes())})
	if !errors.Is(err, netconn.ErrKey) {
		t.Fatalf("error %v", err)
	}
	if want := helloBytes + proofBytes; written.Len() != want {
		t.Fatalf("the dialing side sends %d bytes, want %d", written.Len(), want)
	}
}

// Sizes of the messages of the dialing side in package netconn.
const (
	helloBytes = 80
	proofBytes = 32
)

func FuzzAccept(f *testing.F) {
	f.Add([]byte("trnc\x01\x00\x00\x02" + strings.Repeat("\x00", helloBytes-8+proofBytes)))
	f.Add([]byte("GET /metrics HTTP/1.1\r\nHost: localhost:41000\r\nUser-Agent: scrape\r\n\r\n"))
	f.Add([]byte("trnc"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		if _, err := testGate(0, "a key that cannot be guessed").accept(&tape{Reader: r}); err == nil {
			t.Fatal("let in")
		}
		if read := len(in) - r.Len(); read > helloBytes+proofBytes {
			t.Fatalf("read %d bytes of a intruder", read)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(make([]byte, 80))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h := netconn.Hello{From: 1, Channel: uint16(dataChannel)}
		if _, err := testGate(1, "k").session.Dial(context.Background(), &tape{Reader: bytes.NewReader(in)}, h); err == nil {
			t.Fatal("took a intruder for a rank")
		}
	})
}
