//go:build linux

package netconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/internal/testutil"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(farRankVariable); text != "" {
		beFarRank(text)
		return
	}
	testutil.Waiting()
	goleak.VerifyTestMain(m)
}

// limit is the time after which an operation counts as hung.
const limit = 2 * time.Minute

// exchange is an all-gather among goroutines.
type exchange struct {
	mu    sync.Mutex
	size  int
	round []*round
	calls []int // by rank
}

type round struct {
	blobs [][]byte
	come  int
	full  chan struct{}
}

func newExchange(size int) *exchange { return &exchange{size: size, calls: make([]int, size)} }

func (e *exchange) of(rank int) func(context.Context, []byte) ([][]byte, error) {
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		e.mu.Lock()
		n := e.calls[rank]
		e.calls[rank]++
		if n == len(e.round) {
			e.round = append(e.round, &round{blobs: make([][]byte, e.size), full: make(chan struct{})})
		}
		r := e.round[n]
		r.blobs[rank] = blob
		if r.come++; r.come == e.size {
			close(r.full)
		}
		e.mu.Unlock()
		select {
		case <-r.full:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var testKey = []byte("0123456789abcdef0123456789abcdef")

func addrs(text ...string) (list []netip.Addr) {
	for _, s := range text {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

// config returns the Config of a rank of a job with e.size ranks. The rank has two addresses.
func config(e *exchange, rank int) Config {
	return Config{
		Rank: rank, Size: e.size, Key: testKey, JobID: "job", Epoch: 3, Purpose: "test",
		Listen:   addrs(fmt.Sprintf("127.0.1.%d", rank+1), fmt.Sprintf("127.0.2.%d", rank+1)),
		Timeout:  time.Minute,
		HostOf:   func(r int) string { return string(rune('a' + r)) },
		Exchange: e.of(rank),
		Log:      slog.New(slog.DiscardHandler),
	}
}

// connect runs Connect on all ranks; change may change a rank's Config.
func connect(t *testing.T, size int, change func(*Config)) ([]*Mesh, []error) {
	t.Helper()
	return connectUntil(t.Context(), t, size, change)
}

func connectUntil(ctx context.Context, t *testing.T, size int, change func(*Config)) ([]*Mesh, []error) {
	t.Helper()
	e := newExchange(size)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	meshes, errs := make([]*Mesh, size), make([]error, size)
	var all sync.WaitGroup
	for r := range size {
		cfg := config(e, r)
		if change != nil {
			change(&cfg)
		}
		all.Go(func() { meshes[r], errs[r] = Connect(ctx, cfg) })
	}
	all.Wait()
	t.Cleanup(func() {
		for _, m := range meshes {
			if m != nil {
				m.Close()
			}
		}
	})
	return meshes, errs
}

func mustConnect(t *testing.T, size int, change func(*Config)) []*Mesh {
	t.Helper()
	meshes, errs := connect(t, size, change)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return meshes
}

// talk sends data through every connection, in both directions.
func talk(t *testing.T, meshes []*Mesh) {
	t.Helper()
	for r, m := range meshes {
		for _, p := range m.Peers() {
			c := m.Conn(p)
			if c.Peer() != p {
				t.Errorf("rank %d: the connection to rank %d is to rank %d", r, p, c.Peer())
			}
			if _, err := fmt.Fprintf(c, "%4d %4d", r, p); err != nil {
				t.Error(err)
			}
		}
	}
	for r, m := range meshes {
		for _, p := range m.Peers() {
			got := make([]byte, 9)
			c := m.Conn(p)
			c.SetReadDeadline(time.Now().Add(limit))
			_, err := io.ReadFull(c, got)
			if want := fmt.Sprintf("%4d %4d", p, r); err != nil || string(got) != want {
				t.Errorf("rank %d: %q came from rank %d, want %q; %v", r, got, p, want, err)
			}
		}
	}
}

func TestConnect(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypt=%v", encrypt), func(t *testing.T) {
			meshes := mustConnect(t, 5, func(cfg *Config) { cfg.Encrypt = encrypt })
			for r, m := range meshes {
				if len(m.Peers()) != 4 || slices.Contains(m.Peers(), r) {
					t.Errorf("rank %d: peers %v", r, m.Peers())
				}
			}
			talk(t, meshes)
		})
	}
}

// With Verbose, the side that dials logs the chosen addresses, once per pair.
func TestChosenAddressesAreTold(t *testing.T) {
	for _, verbose := range []bool{true, false} {
		var logs [3]bytes.Buffer // a handler writes one line at a time
		mustConnect(t, 3, func(cfg *Config) {
			cfg.Verbose = verbose
			cfg.Log = slog.New(slog.NewTextHandler(&logs[cfg.Rank], nil))
		})
		for r := range logs {
			lines := strings.Split(logs[r].String(), "\n")
			lines = lines[:len(lines)-1]
			if want := 2 - r; verbose && len(lines) != want || !verbose && len(lines) != 0 {
				t.Errorf("verbose %v: rank %d reports %q", verbose, r, lines)
			}
			for _, line := range lines {
				form := fmt.Sprintf(`level=INFO msg="treerun: rank %d \(127\.0\.[12]\.%d, lo on host %c\) <-> rank \d \(127\.0\.[12]\.\d:\d+, lo on host [bc]\), \d+\.\d\d\d ms"`, r, r+1, 'a'+r)
				if !regexp.MustCompile(form).MatchString(line) {
					t.Errorf("rank %d reports\n%s\nwant\n%s", r, line, form)
				}
			}
		}
	}
}
