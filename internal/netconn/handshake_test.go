//go:build linux

package netconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sessionOf is newSession for tests.
func sessionOf(t interface{ Fatal(...any) }, cfg Config) *Session {
	s, err := newSession(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plainConfig() Config {
	return Config{Key: testKey, JobID: "job", Epoch: 7, Purpose: "data"}
}

// helloOf returns a hello of the session.
func helloOf(s *Session, from, to, channel int) Hello {
	return s.complete(Hello{From: from, To: to, Channel: uint16(channel)})
}

// outcome is the result of a handshake on both sides.
type outcome struct {
	dialed, accepted error
	hello            Hello
}

// shake performs a handshake between two sessions over a connection that tamper may change, byte by byte: i is the
// index of the byte among those that one side sends.
func shake(dialer, acceptor *Session, h Hello, label string, tamper func(up bool, i int, b byte) byte) (o outcome) {
	near, far := net.Pipe()
	if tamper != nil {
		var one, other net.Conn
		near, one = net.Pipe()
		other, far = net.Pipe()
		relay := func(to, from net.Conn, up bool) {
			b := make([]byte, 1)
			for i := 0; ; i++ {
				if _, err := from.Read(b); err != nil {
					break
				}
				b[0] = tamper(up, i, b[0])
				if _, err := to.Write(b); err != nil {
					break
				}
			}
			to.Close()
			from.Close()
		}
		go relay(other, one, true)
		go relay(one, other, false)
	}
	for _, c := range []net.Conn{near, far} {
		c.SetDeadline(time.Now().Add(limit))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		var t *transcript
		o.hello, t, o.accepted = acceptor.answerHello(far, func(*Hello) error { return nil })
		if o.accepted == nil {
			o.accepted = t.expectProof(far)
		}
		if o.accepted == nil {
			o.accepted = t.send(far, "welcome")
		}
	}()
	t, err := dialer.sendHello(near, h)
	if err == nil {
		err = t.send(near, label)
	}
	if err == nil {
		err = t.expect(near, "welcome")
	}
	near.Close()
	<-done
	o.dialed = err
	return o
}

// Two sides connect exactly if all required values are equal, and then each knows the other's values.
func TestHandshakeNeedsEverythingEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Config {
			return Config{
				Key:     []byte(rapid.SampledFrom([]string{"key one", "key two"}).Draw(t, name+" key")),
				JobID:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, name+" job"),
				Epoch:   rapid.IntRange(0, 1).Draw(t, name+" epoch"),
				Purpose: rapid.SampledFrom([]string{"", "x"}).Draw(t, name+" purpose"),
				Encrypt: rapid.Bool().Draw(t, name+" encrypt"),
			}
		}
		a, b := draw("dialer"), draw("acceptor")
		same := string(a.Key) == string(b.Key) && a.JobID == b.JobID && a.Epoch == b.Epoch && a.Purpose == b.Purpose &&
			a.Encrypt == b.Encrypt
		sa, sb := sessionOf(t, a), sessionOf(t, b)
		h := helloOf(sa, rapid.IntRange(0, 1<<24).Draw(t, "from"), rapid.IntRange(0, 1<<24).Draw(t, "to"),
			rapid.IntRange(0, 63).Draw(t, "channel"))
		o := shake(sa, sb, h, "take", nil)
		if same != (o.dialed == nil) || same != (o.accepted == nil) {
			t.Fatalf("equal: %t, got %+v", same, o)
		}
		if same && o.hello != h {
			t.Fatalf("sent %+v, got %+v", h, o.hello)
		}
	})
}

// A connection with any one bit changed, in either direction, fails on at least one side, and never leads to an
// unintended "take".
func TestHandshakeNoticesEveryBit(t *testing.T) {
	s := sessionOf(t, plainConfig())
	for _, d := range []struct {
		up    bool
		bytes int
	}{{true, helloBytes + macBytes}, {false, answerBytes + macBytes}} {
		for bit := range 8 * d.bytes {
			o := shake(s, s, helloOf(s, 1, 2, 0), "take", func(up bool, i int, b byte) byte {
				if up == d.up && i == bit/8 {
					b ^= 1 << (bit % 8)
				}
				return b
			})
			// The welcome is the last message: there is no answer to it.
			last := !d.up && bit/8 >= answerBytes
			if o.dialed == nil || o.accepted == nil && !last {
				t.Fatalf("bit %d (up: %t): %+v", bit, d.up, o)
			}
		}
	}
}

func TestNoOtherMACIsAProof(t *testing.T) {
	s := sessionOf(t, plainConfig())
	for _, label := range []string{"refuse", "answer", "welcome", "seal", ""} {
		if o := shake(s, s, helloOf(s, 1, 2, 0), label, nil); !errors.Is(o.accepted, ErrKey) {
			t.Errorf("%q in place of a proof: %+v", label, o)
		}
	}
}

// player records its writes and reads from a given Reader.
type player struct {
	io.Reader
	sent bytes.Buffer
}

func (p *player) Write(b []byte) (int, error) { return p.sent.Write(b) }

// The messages of a rank in a successful handshake are useless in the next one; so are the messages of the other side,
// sent back to it.
func TestReplayAndReflection(t *testing.T) {
	s := sessionOf(t, plainConfig())
	var up, down bytes.Buffer
	o := shake(s, s, helloOf(s, 1, 2, 0), "take", func(toFar bool, _ int, b byte) byte {
		if toFar {
			up.WriteByte(b)
		} else {
			down.WriteByte(b)
		}
		return b
	})
	if o.dialed != nil || up.Len() != helloBytes+macBytes || down.Len() != answerBytes+macBytes {
		t.Fatalf("%+v: %d and %d bytes", o, up.Len(), down.Len())
	}
	accept := func(*Hello) error { return nil }
	again := &player{Reader: bytes.NewReader(up.Bytes())}
	_, tr, err := s.answerHello(again, accept)
	if err != nil {
		t.Fatalf("the hello alone: %v", err)
	}
	if err := tr.expectProof(again); !errors.Is(err, ErrKey) {
		t.Errorf("a replayed proof: %v", err)
	}
	_, err = s.sendHello(&player{Reader: bytes.NewReader(down.Bytes())}, helloOf(s, 1, 2, 0))
	if !errors.Is(err, ErrKey) {
		t.Errorf("a replayed answer: %v", err)
	}

	// The attacker sends the acceptor's own MAC back to it.
	hello := up.Bytes()[:helloBytes]
	mirror := &player{Reader: bytes.NewReader(hello)}
	if _, tr, err = s.answerHello(mirror, accept); err != nil {
		t.Fatal(err)
	}
	if err := tr.expectProof(bytes.NewReader(mirror.sent.Bytes()[nonceBytes+attemptBytes:])); !errors.Is(err, ErrKey) {
		t.Errorf("a reflected answer: %v", err)
	}
}

// A stranger receives nothing that depends on the key before it has named the job that it wants. It gets a specific
// error, and no more than necessary is read from it.
func TestStrangersAreToldApart(t *testing.T) {
	s := sessionOf(t, plainConfig())
	other := func(change func(*Config)) []byte {
		cfg := plainConfig()
		change(&cfg)
		h := helloOf(sessionOf(t, cfg), 1, 2, 0)
		b := h.encode()
		return b[:]
	}
	good := other(func(*Config) {})
	version := append([]byte(nil), good...)
	version[4]++
	flags := append([]byte(nil), good...)
	flags[5] = 0x82
	for _, c := range []struct {
		name, sent, want string
	}{
		{"silence", "", "sent nothing"},
		{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", `does not speak treerun's protocol: it sent "GET / HTTP/1`},
		{"long http", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("x", 5000),
			`does not speak treerun's protocol: it sent "GET / HTTP/1`},
		{"truncated", string(good[:20]), "20 of 80 bytes of its hello came: the other side closed"},
		{"version", string(version), "version 2, this one is 1 (hint: all ranks must run the same build)"},
		{"flags", string(flags), "unknown flags 0x82"},
		{"other job", string(other(func(c *Config) { c.JobID = "x" })), "another job"},
		{"old epoch", string(other(func(c *Config) { c.Epoch = 6 })), "of epoch 6, this is 7"},
		{"purpose", string(other(func(c *Config) { c.Purpose = "x" })), "another purpose"},
		{"encrypt", string(other(func(c *Config) { c.Encrypt = true })), "one side encrypts"},
	} {
		p := &player{Reader: strings.NewReader(c.sent)}
		_, _, err := s.answerHello(p, func(*Hello) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if p.sent.Len() > 0 {
			t.Errorf("%s: was sent %d bytes", c.name, p.sent.Len())
		}
		if left := p.Reader.(*strings.Reader).Len(); left < len(c.sent)-helloBytes {
			t.Errorf("%s: %d of %d bytes were read", c.name, len(c.sent)-left, len(c.sent))
		}
	}
}

func TestHelloLayout(t *testing.T) {
	h := Hello{encrypt: true, Channel: 0x0102, From: 0x03040506, To: 0x0708090a, scope: scope{Epoch: 0x0b0c0d0e}}
	copy(h.scope.Purpose[:], "purp")
	copy(h.scope.Job[:], "job-id-8")
	copy(h.nonce[:], strings.Repeat("n", nonceBytes))
	copy(h.Attempt[:], strings.Repeat("a", attemptBytes))
	b := h.encode()
	want := "trnc\x01\x01\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0epurpjob-id-8" + strings.Repeat("n",
		32) + strings.Repeat("a", 16)
	if string(b[:]) != want {
		t.Errorf("%q", b)
	}
}

func FuzzHello(f *testing.F) {
	h := helloOf(sessionOf(f, plainConfig()), 1, 2, 3)
	b := h.encode()
	f.Add(b[:])
	f.Add(b[:10])
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		if again := h.encode(); !bytes.Equal(again[:], b) {
			t.Errorf("%q was read as %+v, which is written %q", b, h, again)
		}
	})
}

// FuzzAnswer: bytes without the key never lead past the proof, and at most the bytes of a handshake are read.
func FuzzAnswer(f *testing.F) {
	s := sessionOf(f, plainConfig())
	h := helloOf(s, 1, 2, 3)
	b := h.encode()
	f.Add(b[:])
	f.Add(append(b[:], make([]byte, 200)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		_, tr, err := s.answerHello(&player{Reader: r}, func(*Hello) error { return nil })
		if err == nil {
			if err = tr.expectProof(r); err == nil {
				t.Fatal("a peer without the key was admitted")
			}
		}
		if read := len(b) - r.Len(); read > helloBytes+macBytes {
			t.Errorf("%d bytes were read", read)
		}
	})
}

// FuzzAsk: the same for the answers of an impostor.
func FuzzAsk(f *testing.F) {
	s := sessionOf(f, plainConfig())
	f.Add(make([]byte, answerBytes))
	f.Add(make([]byte, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := s.sendHello(&player{Reader: bytes.NewReader(b)}, helloOf(s, 1, 2, 0)); err == nil {
			t.Fatal("a peer without the key was believed")
		}
	})
}
