package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo/network"
)

// meshOf connects hosts with each other over the loopback: conns[a][b] is a's
// end. Conns of tests that break are closed twice.
func meshOf(t *testing.T, hosts int) [][]net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make([][]net.Conn, hosts)
	for a := range conns {
		conns[a] = make([]net.Conn, hosts)
	}
	for a := range hosts {
		for b := range a {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			d, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conns[a][b], conns[b][a] = c, d
			t.Cleanup(func() { c.Close(); d.Close() })
		}
	}
	return conns
}

// together runs body as every host; a host that fails closes its connections.
func together(conns [][]net.Conn, body func(host int) (*network.Findings, error)) (*network.Findings, []error) {
	all := &network.Findings{}
	errs := make([]error, len(conns))
	var mu sync.Mutex
	var group sync.WaitGroup
	for h := range conns {
		group.Go(func() {
			f, err := body(h)
			if errs[h] = err; err != nil {
				for _, c := range conns[h] {
					if c != nil {
						c.Close()
					}
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(f)
		})
	}
	group.Wait()
	return all, errs
}

func configOf(conns [][]net.Conn, host int) NetworkConfig {
	return NetworkConfig{
		Host: host, Hosts: len(conns), Timeout: time.Minute, Turns: network.Turns(len(conns), network.Quick),
		Conn: func(h int) net.Conn { return conns[host][h] },
		Name: func(h int) string { return "box" + string(rune('a'+h)) },
	}
}

// Hosts on a loopback find every flow and trip of the turns, and the findings give a network.
func TestNetwork(t *testing.T) {
	for _, hosts := range []int{2, 3, 5} {
		conns := meshOf(t, hosts)
		found, errs := together(conns, func(h int) (*network.Findings, error) {
			return Network(t.Context(), configOf(conns, h))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		flows, trips := 0, 0
		for _, turn := range network.Turns(hosts, network.Quick) {
			if turn.Trips {
				trips += len(turn.Flows)
			} else {
				flows += len(turn.Flows)
			}
		}
		if len(found.Flows) < flows || len(found.Trips) != trips {
			t.Errorf("%d hosts: %d flows, %d trips; want %d or more, %d", hosts, len(found.Flows), len(found.Trips), flows,
				trips)
		}
		names := make([]string, hosts)
		n, err := network.Infer(names, found)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range n.Graph.Links {
			if p.GBytesPerSecond < 1e-4 || p.GBytesPerSecond > 1e3 || p.LatencyUs > 1e6 {
				t.Errorf("%d hosts: pair %+v", hosts, p)
			}
		}
		for h := range conns { // nothing of it is left on the connections
			for k, c := range conns[h] {
				if c == nil {
					continue
				}
				if _, err := c.Write([]byte{byte(h)}); err != nil {
					t.Fatal(err)
				}
				var b [1]byte
				if _, err := io.ReadFull(conns[k][h], b[:]); err != nil || int(b[0]) != h {
					t.Errorf("from host %d to %d: %v, %v", h, k, b, err)
				}
			}
		}
	}
}

// A sample has one flow per turn, the quickest, and ends with the first that is slower than all should be.
func TestNetworkOfOneMachine(t *testing.T) {
	const hosts = 5
	sample := network.Sample(hosts)
	for _, ample := range []float64{1e-9, 1e3} {
		conns := meshOf(t, hosts)
		found, errs := together(conns, func(h int) (*network.Findings, error) {
			cfg := configOf(conns, h)
			cfg.Turns, cfg.Ample = sample, ample
			return Network(t.Context(), cfg)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n, err := network.Infer(make([]string, hosts), found); ample < 1 && (err != nil ||
			len(n.Graph.Links) != hosts*(hosts-1)/2 || len(found.Flows) != 2*len(sample)/3) {
			t.Errorf("from %g GB/s on: %d flows, %v", ample, len(found.Flows), err)
		}
		if ample > 1 && len(found.Flows) != 1 {
			t.Errorf("from %g GB/s on: %d flows", ample, len(found.Flows))
		}
	}
}

// Off and one host send nothing.
func TestNetworkOff(t *testing.T) {
	for _, cfg := range []NetworkConfig{{Hosts: 3, Turns: network.Turns(3, network.Off)}, {Hosts: 1}} {
		f, err := Network(t.Context(), cfg)
		if err != nil || len(f.Flows)+len(f.Trips) > 0 {
			t.Errorf("%+v: %v, %v", cfg, f, err)
		}
	}
}

// A host that goes away ends the measurement of all, and the others' errors name the host.
func TestNetworkLosesAHost(t *testing.T) {
	conns := meshOf(t, 3)
	_, errs := together(conns, func(h int) (*network.Findings, error) {
		if h == 2 {
			time.Sleep(60 * time.Millisecond) // in the middle of it
			return nil, errors.New("gone")
		}
		return Network(t.Context(), configOf(conns, h))
	})
	for h, err := range errs[:2] {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("probe: host %d with host", h)) {
			t.Errorf("host %d: %v", h, err)
		}
	}
	if !strings.Contains(errors.Join(errs[:2]...).Error(), "host 2 (boxc)") {
		t.Errorf("no error names host 2: %v", errs)
	}
}

// A host that sends nothing is an error after the timeout, not a hang.
func TestNetworkSilence(t *testing.T) {
	conns := meshOf(t, 2)
	cfg := configOf(conns, 0)
	cfg.Timeout = 50 * time.Millisecond
	_, err := Network(t.Context(), cfg)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() ||
		!strings.Contains(err.Error(), "host 0 with host 1 (boxb): waiting for it at turn 0") {
		t.Errorf("%v, want a timeout at turn 0", err)
	}
}

// The end of the context ends the measurement.
func TestNetworkCanceled(t *testing.T) {
	conns := meshOf(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	_, errs := together(conns, func(h int) (*network.Findings, error) { return Network(ctx, configOf(conns, h)) })
	for h, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("host %d: %v", h, err)
		}
	}
}

// The end of the context ends a wait for a host that sends nothing, long before the timeout.
func TestNetworkCanceledInSilence(t *testing.T) {
	conns := meshOf(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	begin := time.Now()
	cfg := configOf(conns, 0)
	if _, err := Network(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if took := time.Since(begin); took > cfg.Timeout/2 {
		t.Errorf("it took %v", took)
	}
}

// A peer that sends nonsense is refused, whatever the nonsense is.
func TestNetworkNonsense(t *testing.T) {
	for name, text := range map[string]string{
		"http":          "GET / HTTP/1.1\r\nHost: here\r\n\r\n",
		"long frame":    string(strict.AppendHead(nil, frameSync, 1<<56-1)),
		"wrong turn":    string(frames(frameSync, append([]byte{0, 0, 0, 9}, make([]byte, syncBytes-4)...)...)),
		"trip of years": string(frames(frameSync, append([]byte{0, 0, 0, 0, 0x7f}, make([]byte, syncBytes-5)...)...)),
		"cut":           string([]byte{frameSync, 0, 0}),
		"data":          string(frames(frameData, 7)),
	} {
		conns := meshOf(t, 2)
		if _, err := io.WriteString(conns[1][0], text); err != nil {
			t.Fatal(err)
		}
		if err := conns[1][0].(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, err := Network(t.Context(), configOf(conns, 0))
		if err == nil || !strings.Contains(err.Error(), "probe: host 0 with host 1 ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
