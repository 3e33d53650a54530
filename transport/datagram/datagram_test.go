package datagram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/transport/datagram/faultproxy"
	"github.com/treerun/treerun/transport/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meeting is an Exchange between goroutines.
type meeting struct {
	mu     sync.Mutex
	rounds map[int]*round
	size   int
}

type round struct {
	blobs [][]byte
	here  int
	full  chan struct{}
}

func (m *meeting) of(rank int) func(context.Context, []byte) ([][]byte, error) {
	next := 0
	return func(ctx context.Context, b []byte) ([][]byte, error) {
		m.mu.Lock()
		if m.rounds == nil {
			m.rounds = make(map[int]*round)
		}
		r := m.rounds[next]
		if r == nil {
			r = &round{blobs: make([][]byte, m.size), full: make(chan struct{})}
			m.rounds[next] = r
		}
		next++
		r.blobs[rank] = append([]byte{}, b...)
		if r.here++; r.here == m.size {
			close(r.full)
		}
		m.mu.Unlock()
		select {
		case <-r.full:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sockets connects ranks of one process, and returns what Connect returned.
func sockets(t *testing.T, size int, change func(cfg *Config)) ([]*Socket, []error) {
	t.Helper()
	m := &meeting{size: size}
	all, errs := make([]*Socket, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			cfg := Config{Rank: r, Size: size, Key: []byte("a key"), JobID: "job", Purpose: "test",
				Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Exchange: m.of(r)}
			if change != nil {
				change(&cfg)
			}
			all[r], errs[r] = Connect(t.Context(), cfg)
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, s := range all {
			if s != nil {
				s.Close()
			}
		}
	})
	return all, errs
}

func connected(t *testing.T, size int, change func(cfg *Config)) []*Socket {
	t.Helper()
	all, errs := sockets(t, size, change)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

// get waits for so many datagrams, and returns them as "rank: payload".
func get(t *testing.T, s *Socket, n int) (list []string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(list) < n; {
		if time.Now().After(end) {
			t.Fatalf("%q came, %d datagrams are missing: %+v", list, n-len(list), s.Counters())
		}
		s.Wait(10 * time.Millisecond)
		for len(list) < n {
			from, p, ok, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			list = append(list, fmt.Sprintf("%d: %s", from, p))
		}
	}
	return list
}

// Everybody hears everybody, with payloads of every size, and nobody reads them on
// the way.
func TestEverybodyHearsEverybody(t *testing.T) {
	proxy := faultproxy.New(t, 1)
	var mu sync.Mutex
	var seen bytes.Buffer
	proxy.Tap(func(b []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		seen.Write(b)
		return [][]byte{b}
	})
	all := connected(t, 3, func(cfg *Config) {
		cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort { return proxy.Via(at) }
	})
	secret := strings.Repeat("in clear ", MaxPayload/9)
	for r, s := range all {
		for q := range all {
			if q == r {
				continue
			}
			for _, text := range []string{"", "x", secret} {
				if !s.Send(q, []byte(text)) {
					t.Fatal("no room")
				}
			}
		}
		if !s.Flush() {
			t.Fatal("not all was sent")
		}
	}
	for r, s := range all {
		list := get(t, s, 6)
		for q := range all {
			for _, text := range []string{"", "x", secret} {
				if want := fmt.Sprintf("%d: %s", q, text); q != r && strings.Count("\n"+strings.Join(list, "\n")+"\n", "\n"+want+"\n") != 1 {
					t.Errorf("rank %d has not got %.20q once", r, want)
				}
			}
		}
		if c := s.Counters(); c.Received != 6 || c.Sent != 6 || c.Refused != 0 {
			t.Errorf("rank %d: %+v", r, c)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if bytes.Contains(seen.Bytes(), []byte("clear")) {
		t.Error("a payload could be read on the way")
	}
}

// Whatever is changed, cut, repeated, made up or of another job is dropped and
// counted, and what is genuine still comes.
func TestRefused(t *testing.T) {
	all := connected(t, 2, nil)
	others := connected(t, 2, func(cfg *Config) { cfg.Epoch = 1 })
	wrongKey := connected(t, 2, func(cfg *Config) { cfg.Key = []byte("another") })
	a, b := all[0], all[1]
	stranger, err := net.DialUDP("udp", nil, b.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	say := func(d []byte) {
		t.Helper()
		if _, err := stranger.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	genuine := a.links[1].seal.seal(make([]byte, 0, MaxDatagram), kindData, []byte("first"))
	for i := range genuine { // every byte changed
		d := bytes.Clone(genuine)
		d[i] ^= 0x20
		say(d)
	}
	for n := range len(genuine) { // cut
		say(genuine[:n])
	}
	say(append(bytes.Clone(genuine), 0))
	say(make([]byte, MaxDatagram+1))
	say(make([]byte, 9000))
	back := b.links[0].seal.seal(make([]byte, 0, MaxDatagram), kindData, []byte("sent back"))
	say(back) // to its maker
	say(others[0].links[1].seal.seal(make([]byte, 0, MaxDatagram), kindData, []byte("epoch 1")))
	say(wrongKey[0].links[1].seal.seal(make([]byte, 0, MaxDatagram), kindData, []byte("wrong key")))
	say(genuine)
	say(genuine)
	if got := get(t, b, 1); got[0] != "0: first" {
		t.Fatalf("got %q", got)
	}
	a.Send(1, []byte("second"))
	a.Flush()
	if got := get(t, b, 1); got[0] != "0: second" {
		t.Fatalf("got %q", got)
	}
	c := b.Counters()
	if want := int64(2*len(genuine) + 3 + 3 + 1); c.Refused != want || c.Received != 2 || c.Repeated < 1 || c.Malformed < 30 || c.Alien < 7 || c.Forged < 30 {
		t.Errorf("%+v, want %d refused", c, want)
	}
}

// The window knows what came, whatever the order.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		seen, top := map[uint64]bool{}, uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "datagrams") {
			step := rapid.OneOf(rapid.Int64Range(-200, 200), rapid.Int64Range(-5000, 5000), rapid.Just(int64(1))).Draw(t, "step")
			number := uint64(max(0, int64(top)+step))
			fresh := w.fresh(number)
			switch late := top > number && top-number >= 4096; {
			case fresh && (seen[number] || number == 0 || late):
				t.Fatalf("number %d with top %d is fresh: seen %v", number, top, seen[number])
			case !fresh && !seen[number] && number > 0 && !late:
				t.Fatalf("number %d with top %d is not fresh", number, top)
			case fresh:
				w.take(number)
				seen[number] = true
				top = max(top, number)
			}
		}
		if missing := int64(top) - int64(len(seen)); w.missing() != missing {
			t.Fatalf("%d are missing, want %d", w.missing(), missing)
		}
	})
}

// Ranks connect through a network that loses much, and say who cannot be reached
// where nothing passes.
func TestConnectThroughFaults(t *testing.T) {
	proxy := faultproxy.New(t, 7)
	proxy.Set(faultproxy.Faults{Loss: 0.5, Double: 0.3, Jitter: 5 * time.Millisecond})
	via := func(_ int, at netip.AddrPort) netip.AddrPort { return proxy.Via(at) }
	connected(t, 3, func(cfg *Config) {
		cfg.Via, cfg.Timeout = via, time.Minute
		cfg.Listen = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1")}
	})
	_, errs := sockets(t, 3, func(cfg *Config) {
		if cfg.Timeout = 300 * time.Millisecond; cfg.Rank == 2 {
			cfg.Via = func(int, netip.AddrPort) netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:9") }
		}
		cfg.HostOf = func(r int) string { return string(rune('a' + r)) }
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "UDP datagrams do not get through") || !strings.Contains(err.Error(), "on host c)") || !strings.Contains(err.Error(), "firewall") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Where one rank cannot begin all hear of it.
func TestCannotBegin(t *testing.T) {
	for name, bad := range map[string]struct {
		change func(cfg *Config)
		want   string
	}{
		"no address": {func(cfg *Config) { cfg.Listen = nil }, "no address to listen at"},
		"port taken": {func(cfg *Config) {
			c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			port := c.LocalAddr().(*net.UDPAddr).Port
			cfg.Ports = ports.Range{Lo: port, Hi: port}
		}, "for UDP: all ports from"},
		"families": {func(cfg *Config) { cfg.Listen = []netip.Addr{netip.MustParseAddr("::1")} }, "neither IPv4 nor IPv6"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := sockets(t, 3, func(cfg *Config) {
				if cfg.Rank == 1 {
					bad.change(cfg)
				}
			})
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), bad.want) || !strings.Contains(err.Error(), "rank 1") {
					t.Errorf("rank %d: %v, want %q", r, err, bad.want)
				}
			}
		})
	}
}

// Whatever comes in leaves the socket as it was, unless it is genuine.
func FuzzAccept(f *testing.F) {
	nonces := make([][nonceBytes]byte, 2)
	cfg := Config{Size: 2, Key: []byte("key"), JobID: "job"}
	pair := func() (*Socket, *sealer) {
		s := &Socket{session: sessionOf(&cfg), links: make([]*link, 2)}
		aead, err := newAEAD(&cfg, 1, 0, nonces)
		if err != nil {
			f.Fatal(err)
		}
		s.links[1] = &link{rank: 1, open: opener{aead: aead}}
		return s, &sealer{aead: aead, head: header{from: 1, session: s.session}}
	}
	_, seal := pair()
	good := seal.seal(make([]byte, 0, MaxDatagram), kindData, []byte("payload"))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{version})
	f.Add(make([]byte, MaxDatagram))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _ := pair()
		_, _, payload, err := s.accept(bytes.Clone(b))
		if genuine := bytes.Equal(b, good); genuine != (err == nil) || genuine && string(payload) != "payload" {
			t.Fatalf("%x: %q, %v", b, payload, err)
		}
		if err != nil && s.links[1].open.seen != (window{}) {
			t.Fatal("a refused datagram has left a mark")
		}
	})
}

func FuzzDecodeOffer(f *testing.F) {
	o := offer{ports: [2]uint16{1, 2}, addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}
	f.Add(o.encode())
	f.Add((&offer{failed: "no socket"}).encode())
	f.Add([]byte{version, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffer(b)
		if err != nil {
			return
		}
		again, err := decodeOffer(o.encode())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(o) {
			t.Fatalf("%+v became %+v, %v", o, again, err)
		}
		if list, err := decodeReport(b, 100); err == nil && !bytes.Equal(encodeReport(list), b) {
			t.Fatalf("report %x is %v", b, list)
		}
	})
}
