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
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/agree"
)

// logs collects log lines.
type logs struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// onOffers calls f with the offers of all ranks, on this one, between the first exchange and the next step: all ranks
// listen then.
func onOffers(cfg *Config, f func([]offer)) {
	inner, calls := cfg.Exchange, 0
	cfg.Exchange = func(ctx context.Context, b []byte) ([][]byte, error) {
		all, err := inner(ctx, b)
		if calls++; calls == 1 && err == nil {
			gather := func(context.Context, []byte) ([][]byte, error) { return all, nil }
			if offers, err := agree.Exchange(ctx, gather, cfg.Size, nil, offer{}, nil); err == nil {
				f(offers)
			}
		}
		return all, err
	}
}

func doors(offers []offer) (all []netip.AddrPort) {
	for _, o := range offers {
		for _, p := range o.Places {
			all = append(all, netip.AddrPortFrom(p.Addr, p.Port))
		}
	}
	return all
}

// A stranger is the behavior of a caller without the key on a connection. It may close the connection; a connection
// that it leaves open is closed at the end of the test.
type stranger func(c net.Conn, door netip.AddrPort)

// says writes text and keeps the connection open.
func sends(text []byte) stranger { return func(c net.Conn, _ netip.AddrPort) { c.Write(text) } }

// strangers returns strangers of all kinds, for a job of the given session.
func strangers(t *testing.T) map[string]stranger {
	helloOf := func(change func(*Config)) []byte {
		cfg := config(newExchange(4), 0)
		change(&cfg)
		h := helloOf(sessionOf(t, cfg), 0, 3, 0)
		b := h.encode()
		return b[:]
	}
	replayed := helloOf(func(*Config) {})
	hangsUp := func(text []byte) stranger {
		return func(c net.Conn, _ netip.AddrPort) { c.Write(text); c.Close() }
	}
	return map[string]stranger{
		"port scan":        hangsUp(nil),
		"silence":          sends(nil),
		"http":             hangsUp([]byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")),
		"garbage":          sends(bytes.Repeat([]byte{0xa5}, 5000)),
		"tls":              sends([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")),
		"truncated hello":  hangsUp(replayed[:20]),
		"half a hello":     sends(replayed[:40]),
		"replayed hello":   sends(append(replayed, make([]byte, macBytes)...)),
		"wrong key":        sends(append(helloOf(func(c *Config) { c.Key = []byte("other") }), make([]byte, macBytes)...)),
		"wrong job":        sends(helloOf(func(c *Config) { c.JobID = "other" })),
		"old epoch":        sends(helloOf(func(c *Config) { c.Epoch = 2 })),
		"other encryption": sends(helloOf(func(c *Config) { c.Encrypt = true })),
		"one by one": func(c net.Conn, _ netip.AddrPort) {
			go func() {
				for _, b := range replayed {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
		},
	}
}

// crowd sends n strangers to every listener, and returns when all are there.
func crowd(t *testing.T, doors []netip.AddrPort, n int, come stranger) {
	var all sync.WaitGroup
	for _, d := range doors {
		for range min(n, 8) {
			all.Go(func() {
				for range n / min(n, 8) {
					c, err := net.DialTimeout("tcp", d.String(), limit)
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { c.Close() })
					come(c, d)
				}
			})
		}
	}
	all.Wait()
}

// Strangers of every kind connect to every listener before the peers do. All ranks connect, and log once that there was
// a stranger.
func TestStrangers(t *testing.T) {
	for name, come := range strangers(t) {
		t.Run(name, func(t *testing.T) {
			var log logs
			meshes := mustConnect(t, 4, func(cfg *Config) {
				cfg.Log = log.logger()
				onOffers(cfg, func(all []offer) { crowd(t, doors(all[cfg.Rank:cfg.Rank+1]), 24, come) })
			})
			talk(t, meshes)
			// Rank 0 is not dialed by any rank: it may have ended before it has looked at the strangers.
			if warned := log.lines("level=WARN"); len(warned) > 4 {
				t.Errorf("%d warnings:\n%s", len(warned), strings.Join(warned, ""))
			}
		})
	}
}

// All ranks also connect with a thousand strangers of all kinds at every listener, with and without TLS.
func TestCrowdOfStrangers(t *testing.T) {
	kinds := strangers(t)
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	for _, encrypt := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypt=%v", encrypt), func(t *testing.T) {
			var log logs
			var mu sync.Mutex
			n := 0
			visit := func(c net.Conn, d netip.AddrPort) {
				mu.Lock()
				n++
				kind := kinds[names[n%len(names)]]
				mu.Unlock()
				kind(c, d)
			}
			meshes := mustConnect(t, 4, func(cfg *Config) {
				cfg.Log, cfg.Encrypt = log.logger(), encrypt
				onOffers(cfg, func(all []offer) { crowd(t, doors(all[cfg.Rank:cfg.Rank+1]), 1000, visit) })
			})
			talk(t, meshes)
			if warned := log.lines("level=WARN"); len(warned) < 1 || len(warned) > 4 {
				t.Errorf("%d warnings:\n%s", len(warned), strings.Join(warned, ""))
			}
		})
	}
}

// Each kind of stranger is refused for its own reason, regardless of other connections, and the log has the reason.
func TestStrangersAreNamed(t *testing.T) {
	want := map[string]string{
		"silence":         "i/o timeout", // that takes proveTimeout
		"http":            "does not speak treerun's protocol",
		"garbage":         "does not speak treerun's protocol",
		"tls":             "does not speak treerun's protocol",
		"truncated hello": "20 of 80 bytes of its hello came",
		"half a hello":    "40 of 80 bytes of its hello came",
		"replayed hello":  ErrKey.Error(),
		"wrong key":       ErrKey.Error(),
		"wrong job":       "it belongs to another job",
		"old epoch":       "it is of epoch 2, this is 3",
		"one by one":      " of 80 bytes of its hello came",
	}
	for name, come := range strangers(t) {
		text := want[name]
		if text == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logs
			refused := func() bool { return len(log.lines(text)) > 0 }
			// Rank 3 gets the stranger, while rank 0 delays all ranks.
			mustConnect(t, 4, func(cfg *Config) {
				switch cfg.Rank {
				case 3:
					cfg.Log = log.logger()
					onOffers(cfg, func(all []offer) { crowd(t, doors(all[3:])[:1], 1, come) })
				case 0:
					onOffers(cfg, func([]offer) { waitFor(t, refused) })
				}
			})
		})
	}
}

// waitFor waits until f, whose result another goroutine changes, returns true.
func waitFor(t *testing.T, f func() bool) {
	for end := time.Now().Add(limit); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("in vain")
			return
		}
	}
}

// Paths that lose the race do not count as strangers.
func TestSlowerPathsAreQuiet(t *testing.T) {
	var log logs
	for range 10 {
		mustConnect(t, 6, func(cfg *Config) {
			cfg.Log = log.logger()
			cfg.Listen = nil
			for i := range 8 {
				cfg.Listen = append(cfg.Listen, addrs(fmt.Sprintf("127.0.%d.%d", i+1, cfg.Rank+1))...)
			}
		})
	}
	if all := log.lines(""); len(all) > 0 {
		t.Errorf("%d lines:\n%s", len(all), strings.Join(all, ""))
	}
}

// Jobs with the same key and addresses, or the same id, do not connect to each other, even if one dials the other's
// ports; and a rank of an older epoch is not admitted.
func TestOtherJobsAreStrangers(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"job":     func(cfg *Config) { cfg.JobID = "other" },
		"epoch":   func(cfg *Config) { cfg.Epoch-- },
		"purpose": func(cfg *Config) { cfg.Purpose = "other" },
		"key":     func(cfg *Config) { cfg.Key = []byte("other") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logs
			target := make(chan netip.AddrPort, 1)
			lost := make(chan struct{})
			var both sync.WaitGroup
			both.Go(func() { // the other job, whose rank 0 dials into this one
				defer close(lost)
				_, errs := connect(t, 2, func(cfg *Config) {
					change(cfg)
					cfg.Timeout = 2 * time.Second
					cfg.Listen = cfg.Listen[:1]
					to := <-target
					target <- to
					cfg.Via = func(int, netip.AddrPort) netip.AddrPort { return to }
				})
				var e *UnreachableError
				if !errors.As(errs[0], &e) || !errors.As(errs[1], &e) || e.Total != 1 {
					t.Errorf("errors %v", errs)
				}
			})
			both.Go(func() {
				meshes := mustConnect(t, 2, func(cfg *Config) {
					cfg.Log = log.logger()
					if cfg.Rank == 0 {
						onOffers(cfg, func(all []offer) {
							target <- doors(all[1:])[0]
							<-lost
							waitFor(t, func() bool { return len(log.lines("level=WARN")) > 0 })
						})
					}
				})
				talk(t, meshes)
			})
			both.Wait()
			if n := len(log.lines("level=WARN")); n != 1 {
				t.Errorf("%d warnings:\n%s", n, &log.all)
			}
		})
	}
}

// An authenticated connection is not authenticated again, and an unauthenticated one is closed when Connect returns.
func TestNothingStaysOpen(t *testing.T) {
	var at []netip.AddrPort
	var silent net.Conn
	mustConnect(t, 2, func(cfg *Config) {
		if cfg.Rank == 1 {
			onOffers(cfg, func(all []offer) {
				at = doors(all)
				var err error
				if silent, err = net.Dial("tcp", at[2].String()); err != nil {
					t.Error(err)
				}
			})
		}
	})
	for _, a := range at {
		if c, err := net.Dial("tcp", a.String()); err == nil {
			c.Close()
			t.Errorf("a process still listens at %v", a)
		}
	}
	defer silent.Close()
	silent.SetReadDeadline(time.Now().Add(limit))
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) || isTimeout(err) {
		t.Errorf("a stranger's connection: %v", err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestAstray: a caller with the key that wants another rank is refused, and is no stranger; one without it is.
func TestAstray(t *testing.T) {
	for _, c := range []struct {
		key   string
		lines int
	}{{"the key", 0}, {"another key", 1}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var log logs
		refused := make(chan error, 1)
		r := Refusals{Log: log.logger()}
		s := NewSession([]byte("the key"), nil)
		a := OpenAcceptor(AcceptorConfig{Wait: time.Minute, Places: 1,
			Refused: func(from net.Addr, err error) { r.Refused(from, err); refused <- err },
			Prove: func(raw net.Conn) (func(), error) {
				_, err := s.Accept(raw, func(h *Hello) error { return errors.New("this is another rank") })
				return nil, err
			}}, ln)
		at := ln.Addr().(*net.TCPAddr).AddrPort()
		caller := NewSession([]byte(c.key), nil)
		if _, err := caller.DialAny(t.Context(), []netip.AddrPort{at}, Hello{From: 1, To: 2}); err == nil {
			t.Error("let in")
		}
		if err := <-refused; errors.Is(err, errMisdirected) != (c.lines == 0) {
			t.Errorf("with %s: %v", c.key, err)
		}
		a.Close()
		if n := len(log.lines("refused a connection")); n != c.lines {
			t.Errorf("with %s: %d lines, want %d", c.key, n, c.lines)
		}
	}
}

// TestRaceOfMany: of 64 paths the first one that works is taken at once, and the last one is tried soon although all
// before it hang.
func TestRaceOfMany(t *testing.T) {
	for _, works := range []int{0, 63} {
		tried := make(chan int, 64)
		want := &Conn{}
		c, won, _ := race(t.Context(), 64, time.Hour, func(ctx context.Context, i int, _ *atomic.Bool) (*Conn, error) {
			if tried <- i; i == works {
				return want, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if c != want || won != works || len(tried) <= works {
			t.Errorf("path %d works: %d is taken, %d are tried", works, won, len(tried))
		}
	}
}
