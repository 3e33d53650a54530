//go:build linux

package netconn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// tap is a relay that records the data that passes through it, and may change it.
type tap struct {
	ln     net.Listener
	change func(up bool, offset int, b []byte)
	wg     sync.WaitGroup

	mu   sync.Mutex
	seen bytes.Buffer
}

func newTap(t *testing.T, target netip.AddrPort, change func(up bool, offset int, b []byte)) *tap {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &tap{ln: ln, change: change}
	x.wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target.String())
			if err != nil {
				near.Close()
				continue
			}
			x.wg.Go(func() { x.copy(far, near, true) })
			x.wg.Go(func() { x.copy(near, far, false) })
		}
	})
	t.Cleanup(func() { ln.Close(); x.wg.Wait() })
	return x
}

func (x *tap) copy(to, from net.Conn, up bool) {
	defer to.Close()
	buf := make([]byte, 4096)
	for offset := 0; ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.seen.Write(buf[:n])
		x.mu.Unlock()
		if x.change != nil {
			x.change(up, offset, buf[:n])
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		offset += n
	}
}

// viaTaps makes rank 0 dial through taps, and returns them.
func viaTaps(t *testing.T, cfg *Config, change func(up bool, offset int, b []byte)) *sync.Map {
	var taps sync.Map
	if cfg.Rank == 0 {
		cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort {
			x := newTap(t, at, change)
			taps.Store(x, true)
			return x.ln.Addr().(*net.TCPAddr).AddrPort()
		}
	}
	return &taps
}

// The data of ranks can be read on the way without Encrypt, and not with it; the key and the job's id can be read in
// neither case.
func TestWhatCanBeOverheard(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		t.Run(fmt.Sprint(encrypt), func(t *testing.T) {
			var taps *sync.Map
			meshes := mustConnect(t, 2, func(cfg *Config) {
				cfg.Encrypt, cfg.JobID = encrypt, "secret-job-name"
				cfg.Listen = cfg.Listen[:1]
				if m := viaTaps(t, cfg, nil); cfg.Rank == 0 {
					taps = m
				}
			})
			const word = "a word between ranks"
			c, d := meshes[0].Conn(1), meshes[1].Conn(0)
			for _, p := range [][2]*Conn{{c, d}, {d, c}} {
				fmt.Fprint(p[0], word)
				got := make([]byte, len(word))
				p[1].SetDeadline(time.Now().Add(limit))
				if _, err := io.ReadFull(p[1], got); err != nil || string(got) != word {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if (c.TLS() != nil) != encrypt {
				t.Error("TLS")
			}
			var seen []byte
			taps.Range(func(x, _ any) bool {
				x.(*tap).mu.Lock()
				defer x.(*tap).mu.Unlock()
				seen = append(seen, x.(*tap).seen.Bytes()...)
				return true
			})
			if n := bytes.Count(seen, []byte(word)); encrypt && n != 0 || !encrypt && n != 2 {
				t.Errorf("the words were seen %d times", n)
			}
			if bytes.Contains(seen, testKey) || bytes.Contains(seen, []byte("secret-job-name")) || len(seen) < helloBytes {
				t.Errorf("key or job id were seen in %d bytes", len(seen))
			}
			if encrypt {
				if s := c.TLS().ConnectionState(); s.Version != tls.VersionTLS13 || s.DidResume {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// A changed byte of an encrypted connection ends it.
func TestChangedBytesEndTheConnection(t *testing.T) {
	var mu sync.Mutex
	changing := false
	meshes := mustConnect(t, 2, func(cfg *Config) {
		cfg.Encrypt = true
		cfg.Listen = cfg.Listen[:1]
		viaTaps(t, cfg, func(up bool, _ int, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			if changing && up {
				b[len(b)-1] ^= 1
			}
		})
	})
	mu.Lock()
	changing = true
	mu.Unlock()
	fmt.Fprint(meshes[0].Conn(1), "pay 1 to alice")
	c := meshes[1].Conn(0)
	c.SetDeadline(time.Now().Add(limit))
	if n, err := c.Read(make([]byte, 100)); n != 0 || err == nil || !strings.Contains(err.Error(), "bad record MAC") {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Two TLS sessions of the same job, joined by an unauthenticated process in the middle, do not pass for one: the seal
// covers the session.
func TestSealCoversTheSession(t *testing.T) {
	cfg := plainConfig()
	cfg.Encrypt = true
	s := sessionOf(t, cfg)
	settings := s.tls
	h := helloOf(s, 1, 2, 0)
	tr := &transcript{key: s.key, hello: h.encode()}
	ends := func() (*tls.Conn, *tls.Conn) {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		near, far := tls.Client(a, settings), tls.Server(b, settings)
		done := make(chan error, 1)
		go func() { done <- far.Handshake() }()
		if err := near.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	bind := func(c *tls.Conn) []byte {
		b, err := binding(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := ends()
	c, _ := ends()
	if !bytes.Equal(bind(a), bind(b)) || bytes.Equal(bind(a), bind(c)) {
		t.Fatal("the binding is not the session's")
	}
	var sent bytes.Buffer
	if err := tr.send(&sent, "seal", bind(a)...); err != nil {
		t.Fatal(err)
	}
	sealed := sent.Bytes()
	if err := tr.expect(bytes.NewReader(sealed), "seal", bind(b)...); err != nil {
		t.Errorf("its own session: %v", err)
	}
	if err := tr.expect(bytes.NewReader(sealed), "seal", bind(c)...); !errors.Is(err, ErrKey) {
		t.Errorf("another session: %v", err)
	}
}

// TLS without the job's key fails on either side, and so does any older TLS.
func TestTLSNeedsTheKey(t *testing.T) {
	cfg := plainConfig()
	cfg.Encrypt = true
	good := sessionOf(t, cfg).tls
	other := cfg
	other.Epoch++
	stale := sessionOf(t, other).tls
	anonymous := good.Clone()
	anonymous.Certificates = nil
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, c := range map[string]struct {
		client, server *tls.Config
		ok             bool
	}{
		"same":             {good, good, true},
		"other client":     {stale, good, false},
		"other server":     {good, stale, false},
		"anonymous client": {anonymous, good, false},
		"old client":       {old, good, false},
		"old server":       {good, old, false},
	} {
		a, b := net.Pipe()
		near, far := tls.Client(a, c.client), tls.Server(b, c.server)
		errs := make(chan error, 2)
		go func() {
			err := far.Handshake()
			if err == nil {
				_, err = far.Write([]byte("x"))
			}
			b.Close()
			errs <- err
		}()
		_, err := near.Read(make([]byte, 1)) // the first read returns the server's verdict on the client
		a.Close()
		if err := errors.Join(err, <-errs); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// drip is an inner connection of the kind that a nonblocking transport has: it returns one byte at a time, and in
// between an error that there is no data.
type drip struct {
	net.Conn
	dry bool
	out bytes.Buffer // data written by the session
}

type nothingYet struct{}

func (nothingYet) Error() string   { return "nothing there yet" }
func (nothingYet) Timeout() bool   { return true }
func (nothingYet) Temporary() bool { return true }

func (d *drip) Read(b []byte) (int, error) {
	if d.dry = !d.dry; d.dry {
		return 0, nothingYet{}
	}
	return d.Conn.Read(b[:1])
}

func (d *drip) Write(b []byte) (int, error) { return d.out.Write(b) }

// The session works over a connection that never blocks.
func TestInnerConnection(t *testing.T) {
	meshes := mustConnect(t, 2, func(cfg *Config) { cfg.Encrypt = true })
	a, b := meshes[0].Conn(1), meshes[1].Conn(0)
	from, to := &drip{Conn: a.TCP()}, &drip{Conn: b.TCP()}
	a.SetInner(from)
	b.SetInner(to)
	b.TCP().SetDeadline(time.Now().Add(limit))

	data := bytes.Repeat([]byte("0123456789"), 5000) // several records
	if n, err := a.Write(data); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	if from.out.Len() <= len(data) {
		t.Fatalf("%d bytes of records for %d of data", from.out.Len(), len(data))
	}
	go a.TCP().Write(from.out.Bytes())
	var got []byte
	buf, dry := make([]byte, 4096), 0
	for len(got) < len(data) {
		n, err := b.Read(buf)
		got = append(got, buf[:n]...)
		if errors.As(err, new(nothingYet)) {
			dry++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, data) || dry < len(data) {
		t.Errorf("%d of %d bytes, equal %t, %d times nothing", len(got), len(data), bytes.Equal(got, data), dry)
	}
}

// A connection whose TLS session cannot be established is closed, and not kept.
func TestAcceptedWithoutTLS(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("no record of TLS")); err != nil {
		t.Fatal(err)
	}
	m := &Mesh{cfg: Config{Size: 2, PeerTimeout: time.Second, Log: slog.New(slog.DiscardHandler)}, stop: t.Context(),
		conns: make(map[int]*Conn)}
	session := NewSession(make([]byte, 32), nil)
	if err := session.Encrypt(); err != nil {
		t.Fatal(err)
	}
	m.accepted(&Conn{Conn: near, raw: near, peer: 1, session: session, proof: new(transcript)})
	far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, far); errors.Is(err, os.ErrDeadlineExceeded) || len(m.conns) > 0 {
		t.Errorf("the connection is open, and kept for %d ranks (%v)", len(m.conns), err)
	}
}
