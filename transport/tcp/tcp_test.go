package tcp

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

func TestMain(m *testing.M) {
	if arg := os.Getenv(envBench); arg != "" {
		if err := benchChild(arg); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", arg, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" {
		os.Exit(m.Run()) // the fuzzer has goroutines of its own
	}
	goleak.VerifyTestMain(m)
}

// tcpPair returns both ends of a connection over the loopback.
func tcpPair(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

func socketOf(t testing.TB, c *net.TCPConn) socket {
	t.Helper()
	name := fmt.Sprintf("%v -> %v", c.LocalAddr(), c.RemoteAddr())
	if err := c.SetNoDelay(true); err != nil {
		t.Fatal(err)
	}
	fd, err := osys.TakeSocket(c)
	if err != nil {
		t.Fatal(err)
	}
	return socket{fd: fd, name: name, wire: plain(fd)}
}

// alone returns the links of a rank within its host, of which it is the only one.
func alone(rank int, l transport.Layout) (*shm.Endpoint, error) {
	l.Members = []int{rank}
	return shm.Connect(context.Background(), shm.Config{Rank: rank, Layout: l, Key: make([]byte, shm.KeyBytes),
		JobID: "test", Doorbell: true,
		Exchange: func(_ context.Context, blob []byte) ([][]byte, error) { return [][]byte{blob}, nil }})
}

// configOf returns the configuration of a rank of a layout.
func configOf(rank int, l transport.Layout) *Config {
	return &Config{Layout: l, Config: netconn.Config{Rank: rank, Size: l.Size}}
}

// endpointOf makes the endpoint of a rank that is alone on its host, with the given connections by peer.
func endpointOf(cfg *Config, sockets map[int]socket) (*Endpoint, error) {
	local, err := alone(cfg.Rank, cfg.Layout)
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(cfg, local, nil)
	for peer, k := range sockets {
		if err == nil {
			err = e.net.addConn(peer).attach(k)
		}
	}
	return e, err
}

// mesh returns endpoints of all ranks of a layout with connections between all
// of them; change, if not nil, may change how each is made.
func mesh(t testing.TB, l transport.Layout, change func(*Config)) []transport.Endpoint {
	t.Helper()
	sockets := make([]map[int]socket, l.Size)
	for a := range l.Size {
		sockets[a] = make(map[int]socket)
		for b := range a {
			x, y := tcpPair(t)
			sockets[a][b], sockets[b][a] = socketOf(t, x), socketOf(t, y)
		}
	}
	all := make([]transport.Endpoint, l.Size)
	for r := range all {
		cfg := configOf(r, l)
		if change != nil {
			change(cfg)
		}
		e, err := endpointOf(cfg, sockets[r])
		if err != nil {
			t.Fatal(err)
		}
		all[r] = e
	}
	return all
}

// FlushStatus sends a new call to the peers long before the next beat, though the owner of the links keeps polling
// them.
func TestTell(t *testing.T) {
	all := mesh(t, testutil.Pair(2, 64), func(cfg *Config) { cfg.every = time.Hour })
	defer func() {
		for _, e := range all {
			_ = e.Close()
		}
	}()
	for i := range 10 {
		begin := time.Now()
		h := call.Header{Seq: uint64(i + 1)}
		all[0].Enter(&h)
		all[0].FlushStatus()
		for all[1].Status(0).Call != h {
			all[0].(*Endpoint).bell.progress() // as an owner does that waits for something
			all[1].(*Endpoint).bell.progress()
			if time.Since(begin) > testutil.Limit {
				t.Fatalf("rank 1 receives no call %d", i+1)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// Close closes all descriptors of an endpoint.
func TestCloseReleasesDescriptors(t *testing.T) {
	count := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := 0
	for range 2 { // the first round opens what the runtime keeps
		before = count()
		for _, e := range mesh(t, testutil.Pair(2, 64), nil) {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors are open after Close, %d were before", after, before)
	}
}

// A connection that is lost ends the links of all sets that use it.
func TestLostConnectionOfParentAndChild(t *testing.T) {
	l := testutil.Pair(4, 64)
	var all [2][]*Endpoint
	for r, e := range mesh(t, l, nil) {
		parent := e.(*Endpoint)
		within := l
		within.Members = []int{r}
		o := parent.Offer()
		local, err := o.Join(o.Room, []int{r}, within, r, t.Name())
		if err != nil {
			t.Fatal(err)
		}
		child, err := parent.Child(7, []int{0, 1}, r, l, local)
		if err != nil {
			t.Fatal(err)
		}
		all[r] = []*Endpoint{parent, child}
	}
	if err := osys.EndSending(all[0][0].net.all()[0].fd); err != nil {
		t.Fatal(err)
	}
	for i, e := range all[1] {
		for end := time.Now().Add(testutil.Limit); e.Status(0).Ended == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("set %d has not ended", i)
			}
		}
	}
	for r := range all {
		for _, e := range all[r] {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
