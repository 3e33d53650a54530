//go:build linux

package netconn

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// through sends every connection of a rank through a proxy, one per peer and address, which script sets up.
func through(t *testing.T, cfg *Config, script func(*testutil.Proxy)) {
	proxies := map[netip.AddrPort]netip.AddrPort{}
	ready := make(chan struct{}, 1)
	ready <- struct{}{}
	cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort {
		<-ready
		defer func() { ready <- struct{}{} }()
		if _, ok := proxies[at]; !ok {
			p := testutil.NewProxy(t, at.String())
			script(p)
			proxies[at] = p.Addr()
		}
		return proxies[at]
	}
}

// All ranks connect in spite of any fault of the network that ends after a while.
func TestHandshakeOverBadNetworks(t *testing.T) {
	type fault = testutil.Fault
	for name, f := range map[string][2]fault{
		"late":               {{Delay: 20 * time.Millisecond}, {Delay: 20 * time.Millisecond}},
		"one by one":         {{Piece: 1}, {Piece: 1}},
		"late by one side":   {{}, {Delay: 50 * time.Millisecond, Piece: 3}},
		"stalled for a time": {{After: 70, Kind: testutil.Stall, Hold: 100 * time.Millisecond}, {}},
	} {
		for _, encrypt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/encrypt=%v", name, encrypt), func(t *testing.T) {
				meshes := mustConnect(t, 3, func(cfg *Config) {
					cfg.Encrypt = encrypt
					through(t, cfg, func(p *testutil.Proxy) { p.Next(f[0], f[1]) })
				})
				talk(t, meshes)
			})
		}
	}
}

// A connection that ends, or is reset, at any byte of its handshake, is made again.
func TestHandshakeIsRepeated(t *testing.T) {
	for _, kind := range []testutil.Kind{testutil.Reset, testutil.Close} {
		for _, encrypt := range []bool{false, true} {
			for after := int64(0); after < 100; after += 33 {
				for _, up := range []bool{true, false} {
					t.Run(fmt.Sprintf("%d/encrypt=%v/after=%d/up=%v", kind, encrypt, after, up), func(t *testing.T) {
						t.Parallel()
						var tries atomic.Int64
						meshes := mustConnect(t, 2, func(cfg *Config) {
							cfg.Encrypt = encrypt
							cfg.Listen = cfg.Listen[:1]
							cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort {
								if tries.Add(1) > 1 {
									return at
								}
								p := testutil.NewProxy(t, at.String())
								f := testutil.Fault{After: after, Kind: kind}
								if up {
									p.Next(f, testutil.Fault{})
								} else {
									p.Next(testutil.Fault{}, f)
								}
								return p.Addr()
							}
						})
						if n := tries.Load(); n != 2 {
							t.Errorf("%d attempts", n)
						}
						talk(t, meshes)
					})
				}
			}
		}
	}
}

// Duplicated bytes in a handshake are never taken for an answer.
func TestRepeatedBytes(t *testing.T) {
	_, errs := connect(t, 2, func(cfg *Config) {
		cfg.Listen = cfg.Listen[:1]
		through(t, cfg, func(p *testutil.Proxy) {
			p.Next(testutil.Fault{}, testutil.Fault{After: 20, Kind: testutil.Duplicate, Bytes: 5})
		})
	})
	if text := sameError(t, errs).Error(); !strings.Contains(text, ErrKey.Error()) {
		t.Error(text)
	}
}

// When the peer closes its end of a connection, this end reports it.
func TestConnectionsEnd(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		meshes := mustConnect(t, 2, func(cfg *Config) { cfg.Encrypt = encrypt })
		c := meshes[0].Conn(1)
		c.SetDeadline(time.Now().Add(limit))
		meshes[1].Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("encrypt %v: %v", encrypt, err)
		}
	}
}
