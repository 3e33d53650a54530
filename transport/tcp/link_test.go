package tcp

import (
	"io"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
)

// A window that is longer than a slot is not lent: its frame would be refused by the receiver.
func TestLendLongerThanASlot(t *testing.T) {
	near, far := tcpPair(t)
	defer far.Close()
	const size = 4 << 10
	e, err := endpointOf(configOf(0, testutil.Pair(2, size)), map[int]socket{1: socketOf(t, near)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s, err := e.Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
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

// Lent memory is not returned while the socket has no room for it.
func TestLentMemoryInTheQueue(t *testing.T) {
	const windows, size = 32, 1 << 20
	near, far := tcpPair(t) // whose other end is read only below
	e, err := endpointOf(configOf(0, testutil.Pair(windows, size)), map[int]socket{1: socketOf(t, near)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s, err := e.Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
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
	err = testutil.Wait(e, 1000, func() (bool, error) { return s.Returned(), nil })
	if err != nil {
		t.Error(err)
	}
	far.SetReadDeadline(time.Unix(1, 0))
	<-read
	_ = far.Close()
}
