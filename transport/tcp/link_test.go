//go:build linux

package tcp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// lender is an endpoint of rank 0 over a socket whose far end is the test's, and its sender to rank 1.
func lender(t *testing.T, slots, slotBytes int) (e *Endpoint, s transport.Sender, far *net.TCPConn) {
	t.Helper()
	near, far := tcpPair(t)
	e, err := endpointOf(configOf(0, testutil.Pair(slots, slotBytes)), map[int]socket{1: socketOf(t, near)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if s, err = e.Sender(0, 1); err != nil {
		t.Fatal(err)
	}
	return e, s, far
}

// A window that is longer than a slot is not lent: its frame would be refused by the receiver.
func TestLendLongerThanASlot(t *testing.T) {
	const size = 4 << 10
	_, s, far := lender(t, 2, size)
	defer far.Close()
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer func() {
		if p := recover(); p != "tcp: Lend of 4097 bytes, slots hold 4096" {
			t.Errorf("panic %v", p)
		}
	}()
	s.Lend(&call.Header{}, make([]byte, size+1), false)
}

// Memory that waits for a connection is returned when the connection is lost: its frames are dropped.
func TestLentMemoryOfALostConnection(t *testing.T) {
	const windows, size = 32, 1 << 20
	_, s, far := lender(t, windows, size)
	for range windows {
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.Lend(&call.Header{Seq: 1}, make([]byte, size), false)
		s.Wake()
	}
	if s.Returned() {
		t.Fatalf("%d MiB that no peer reads are with the kernel", windows)
	}
	_ = far.SetLinger(0) // a reset
	_ = far.Close()
	for end := time.Now().Add(10 * time.Second); !s.Returned(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the memory is not returned")
		}
	}
}

// A connection that cannot be made is a fault of the rank at its other end, unless that rank has closed its port.
func TestConnectionThatCannotBeMade(t *testing.T) {
	e, err := endpointOf(configOf(0, testutil.Pair(2, 64)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	e.net.onConnected(1, nil, &netconn.UnreachableError{Refused: true})
	if f, aborted := e.Aborted(); aborted {
		t.Fatalf("a closed port: %+v", f)
	}
	e.net.onConnected(1, nil, errors.New("no route"))
	if f := testutil.AwaitFault(e); f.Kind != transport.FaultLink || f.Rank != 1 || f.Text != "rank 1: no route" {
		t.Errorf("%+v", f)
	}
}

// Without descriptors for an endpoint, New closes the connections.
func TestNewWithoutDescriptors(t *testing.T) {
	var meshes [2]*netconn.Mesh
	var cfgs [2]*Config
	tab := newTable(2)
	var all sync.WaitGroup
	for r := range cfgs {
		cfgs[r] = &Config{Layout: testutil.Pair(2, 64), Config: netconn.Config{Rank: r, Size: 2, Key: make([]byte, 32),
			JobID: "test", Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Exchange: tab.exchange(r)}}
		all.Go(func() {
			var err error
			if meshes[r], err = Connect(t.Context(), cfgs[r]); err != nil {
				t.Error(err)
			}
		})
	}
	if all.Wait(); t.Failed() {
		return
	}
	defer meshes[1].Close()
	local, err := alone(0, cfgs[0].Layout)
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := syscall.Rlimit{Cur: 3, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfgs[0], local, meshes[0])
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("%v, want %v", err, syscall.EMFILE)
	}
	peer := meshes[1].Conn(0)
	peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := peer.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection to the other rank is not closed: %v", err)
	}
}

// Lent memory is not returned while the socket has no room for it.
func TestLentMemoryInTheQueue(t *testing.T) {
	const windows, size = 32, 1 << 20
	e, s, far := lender(t, windows, size) // far is read only below
	for i := range windows {
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.Lend(&call.Header{Seq: 1}, make([]byte, size), false)
		if s.Wake(); i == windows-1 && s.Returned() {
			t.Fatalf("%d MiB that no peer reads are with the kernel", windows)
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, far)
	}()
	err := testutil.Wait(e, 1000, func() (bool, error) { return s.Returned(), nil })
	if err != nil {
		t.Error(err)
	}
	far.SetReadDeadline(time.Unix(1, 0))
	<-read
	_ = far.Close()
}

// A link takes as many chunks as it has slots, and more that are short.
func TestShortChunks(t *testing.T) {
	const slots, slotBytes = 4, 16 << 10
	for _, c := range []struct{ bytes, want int }{{1, manyChunks}, {1 << 10, 49}, {slotBytes, slots}} {
		_, s, far := lender(t, slots, slotBytes)
		defer far.Close()
		sent := 0
		for ; sent <= manyChunks; sent++ {
			if _, ok, err := s.TryReserve(c.bytes); !ok || err != nil {
				break
			}
			s.Commit(&call.Header{})
		}
		if sent != c.want {
			t.Errorf("%d chunks of %d bytes are under way, want %d", sent, c.bytes, c.want)
		}
	}
}
