package rank

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tape is a connection whose other side has said all that it will ever say.
type tape struct {
	io.Reader
	bytes.Buffer
}

func (t *tape) Read(b []byte) (int, error) { return t.Reader.Read(b) }

func always() bool { return true }

// testGate is one of a rank that knows the attempt of its job.
func testGate(self int, key string) *gate {
	g := newGate([]byte(key), self, 8)
	g.attempt.Store(&attemptID{1, 2, 3})
	return g
}

// shake runs both sides of a handshake, with change applied to everything that
// one side says.
func shake(client, server *gate, to int, changeUp, changeDown func([]byte) []byte) (peer int, ch channel, dialErr, acceptErr error) {
	return shakeOn(dataChannel, client, server, to, changeUp, changeDown)
}

func shakeOn(use channel, client, server *gate, to int, changeUp, changeDown func([]byte) []byte) (peer int, ch channel, dialErr, acceptErr error) {
	a, b := net.Pipe()
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(time.Now().Add(deadline))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		peer, ch, acceptErr = server.accept(changed{b, changeDown})
		if acceptErr == nil {
			acceptErr = letIn(changed{b, changeDown})
		}
		b.Close()
	}()
	dialErr = client.dial(changed{a, changeUp}, to, use, always)
	if dialErr != nil {
		a.Close()
	}
	<-done
	a.Close()
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
	if !errors.Is(dialErr, ErrKey) || acceptErr == nil {
		t.Fatal(dialErr, acceptErr)
	}
}

func TestHandshakeMeantForAnotherRankFails(t *testing.T) {
	_, _, dialErr, acceptErr := shake(testGate(5, "k"), testGate(2, "k"), 3, nil, nil)
	if dialErr == nil || acceptErr == nil {
		t.Fatal(dialErr, acceptErr)
	}
}

// A single bit changed on the way, in either direction, is found out by
// somebody before anything else is said.
func TestHandshakeFindsEveryChangedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up := rapid.Bool().Draw(t, "up")
		total := answerBytes
		if up {
			total = helloBytes + macBytes
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
			t.Fatalf("bit %d changed, and nobody cares", bit)
		}
		if up && acceptErr == nil {
			t.Fatal("the accepting side was taken in")
		}
	})
}

// What one handshake said does not open the next one.
func TestHandshakeCannotBeReplayed(t *testing.T) {
	var said bytes.Buffer
	record := func(b []byte) []byte { said.Write(b); return b }
	if _, _, dialErr, acceptErr := shake(testGate(1, "k"), testGate(0, "k"), 0, record, nil); dialErr != nil || acceptErr != nil {
		t.Fatal(dialErr, acceptErr)
	}
	_, _, err := testGate(0, "k").accept(&tape{Reader: bytes.NewReader(said.Bytes())})
	if !errors.Is(err, ErrKey) {
		t.Fatalf("error %v", err)
	}
	if want := helloBytes + macBytes; said.Len() != want {
		t.Fatalf("the dialing side says %d bytes, want %d", said.Len(), want)
	}
}

func FuzzAccept(f *testing.F) {
	h := hello{channel: dataChannel, from: 1}
	f.Add(append(h.encode(), make([]byte, macBytes)...))
	f.Add([]byte("GET /metrics HTTP/1.1\r\nHost: localhost:41000\r\nUser-Agent: scrape\r\n\r\n"))
	f.Add([]byte(helloMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		if _, _, err := testGate(0, "a key that nobody guesses").accept(&tape{Reader: r}); err == nil {
			t.Fatal("let in")
		}
		if read := len(in) - r.Len(); read > helloBytes+macBytes {
			t.Fatalf("read %d bytes of a stranger", read)
		}
	})
}

func FuzzDecodeHello(f *testing.F) {
	h := hello{channel: gossipChannel, from: 7, to: 3}
	f.Add(h.encode())
	f.Add(h.encode()[:helloBytes-1])
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := decodeHello(in, 3)
		if err == nil && (!bytes.Equal(h.encode(), in) || h.to != 3) {
			t.Fatalf("%x was read as %+v", in, h)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(make([]byte, answerBytes))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := testGate(1, "k").dial(&tape{Reader: bytes.NewReader(in)}, 0, dataChannel, always); err == nil {
			t.Fatal("took a stranger for a rank")
		}
	})
}
