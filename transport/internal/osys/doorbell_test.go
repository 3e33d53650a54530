//go:build linux

package osys

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRecvFDWithoutRoom checks that a process that may have no more descriptors does not wait for one.
func TestRecvFDWithoutRoom(t *testing.T) {
	fd := sealed(t)
	d, name := doorbell(t)
	token := []byte("12345678")
	if err := d.SendFD(name, token, fd); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(free)
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	less := unix.Rlimit{Cur: uint64(free), Max: limit.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &less, nil); err != nil {
		t.Fatal(err)
	}
	got, err := d.RecvFD(token, none, time.Minute)
	if e := unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("descriptor %d, %v", got, err)
	}
}
