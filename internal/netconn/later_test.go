//go:build linux

package netconn

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestReach: ranks that are connected later are connected once, even if both sides call Reach at the same time.
func TestReach(t *testing.T) {
	const size = 6
	for _, encrypt := range []bool{false, true} {
		meshes, errs := connect(t, size, func(cfg *Config) {
			rank := cfg.Rank
			cfg.Encrypt = encrypt
			cfg.First = func(r int) bool { return r+rank == 1 }
		})
		var mu sync.Mutex
		var opened [size][size]*Conn
		all := make(chan struct{})
		left := size * (size - 1)
		for r, m := range meshes {
			if errs[r] != nil {
				t.Fatal(errs[r])
			}
			m.Serve(func(peer int, c *Conn, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil || c == nil || opened[r][peer] != nil {
					t.Errorf("rank %d with rank %d: %v, %v", r, peer, c, err)
				}
				opened[r][peer] = c
				if left--; left == 0 {
					close(all)
				}
			})
		}
		for r, m := range meshes {
			go func() {
				for peer := range size {
					if peer != r && (peer+r)%3 > 0 || peer > r { // some from both sides
						m.Reach(peer)
						m.Reach(peer)
					}
				}
			}()
		}
		<-all
		for a := range size {
			for b := range a {
				if _, err := opened[a][b].Write([]byte{1}); err != nil {
					t.Error(err)
				}
				if _, err := io.ReadFull(opened[b][a], make([]byte, 1)); err != nil {
					t.Errorf("between ranks %d and %d: %v", a, b, err)
				}
			}
		}
		for _, m := range meshes {
			m.Close()
		}
		for a := range opened {
			for _, c := range opened[a] {
				if c != nil {
					c.Raw().Close()
				}
			}
		}
	}
}

// TestServeWhileAPeerCalls: a connection is handed over once its welcome is on its way, even if this rank calls Serve
// while the connection is being made.
func TestServeWhileAPeerCalls(t *testing.T) {
	for i := range testutil.Count(40, 200) {
		meshes, errs := connect(t, 2, func(cfg *Config) {
			cfg.First = func(int) bool { return false }
			cfg.Encrypt = i%2 == 1
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var ends [2]*Conn
		var failed [2]error
		var both sync.WaitGroup
		both.Add(2)
		serve := func(rank int) {
			meshes[rank].Serve(func(_ int, c *Conn, err error) {
				ends[rank], failed[rank] = c, err
				if err == nil && rank == 1 {
					_, failed[1] = c.Write([]byte("X"))
				}
				both.Done()
			})
		}
		serve(0)
		meshes[0].Reach(1)
		for len(meshes[1].Peers()) == 0 { // until rank 1 has recorded it
			runtime.Gosched()
		}
		serve(1)
		both.Wait()
		b := make([]byte, 1)
		if ends[0] == nil || ends[1] == nil {
			t.Fatalf("round %d: %v", i, failed)
		}
		if _, err := io.ReadFull(ends[0], b); err != nil || string(b) != "X" {
			t.Fatalf("round %d: the first byte is %q: %v, %v", i, b, err, failed)
		}
		for r, m := range meshes {
			m.Close()
			ends[r].Raw().Close()
		}
	}
}

// TestReachOfNobody: a rank that has closed its mesh refuses connections, and the error reports that.
func TestReachOfNobody(t *testing.T) {
	meshes, errs := connect(t, 2, func(cfg *Config) {
		cfg.First = func(int) bool { return false }
	})
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	meshes[1].Close()
	failed := make(chan error, 1)
	meshes[0].Serve(func(_ int, _ *Conn, err error) { failed <- err })
	meshes[0].Reach(1)
	if err, is := (<-failed).(*UnreachableError); !is || !err.Refused {
		t.Errorf("%v", err)
	}
	meshes[0].Close()
}
