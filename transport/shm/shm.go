// Package shm is not for users: it is the transport between processes of one host: one sealed memory file that all
// ranks of the set map, with the FIFOs and the control board of package segment in it, and futexes to sleep on. The
// board and the slots' headers have memory from the start, payloads and heaps when they are used.
//
// The first rank of the layout makes the file and sends it to the others' doorbells, unix sockets with abstract names,
// whose owners have proved that they know the job's key. So nothing is left in any file system, whatever process dies
// at any time. It does not watch the ranks' processes: code that learns that a rank has ended calls Abort.
//
// It does not know about launchers, collectives or graphs. Package collective
// imports it.
package shm

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// KeyBytes is the size of Config.Key.
const KeyBytes = 32

// Config describes one rank of a set. All ranks must use the same Layout, Key and JobID.
type Config struct {
	Rank   int              // this rank, within Layout
	Layout transport.Layout // the links of the set; its first member makes the memory
	Key    []byte           // KeyBytes secret bytes of the job
	JobID  string           // name of the job, in names and messages; need not be secret

	// Exchange gives every member's blob, in their order, to all members. Connect calls
	// it exactly twice, unless the first call fails, in the same order on every
	// rank. The blobs are below 1 KiB.
	Exchange func(ctx context.Context, blob []byte) ([][]byte, error)

	// Doorbell lets ranks sleep on a socket instead of a futex, for ranks that have other descriptors to wait for, too:
	// see Bell.SleepOn. All members must have the same value.
	Doorbell bool

	// OwnCores: the host has a core for every rank of the job. Ranks then move to different cores, and yield only a core
	// that they share.
	OwnCores bool
}

func (c *Config) validate() error {
	switch {
	case len(c.Key) != KeyBytes:
		return fmt.Errorf("shm: key of %d bytes, want %d", len(c.Key), KeyBytes)
	case c.Rank < 0 || c.Rank >= c.Layout.Size:
		return fmt.Errorf("shm: rank %d of %d", c.Rank, c.Layout.Size)
	case c.Layout.MemberIndex(c.Rank) < 0:
		return fmt.Errorf("shm: rank %d is none of %v", c.Rank, c.Layout.Members)
	}
	return nil
}

// PinThread ties the calling goroutine to the k-th core, modulo their number, of a list, or, if it is empty, of those
// on which its thread may run, until it calls restore. Measurements use it, as times between two ranks depend first of
// all on whether they run on one core.
func PinThread(k int, among []int) (restore func(), err error) { return osys.PinThread(k, among) }

// HeapBytes returns how large the heaps of a layout may be on this host: want, or nothing where the addresses of a
// process are limited (ulimit -v): a rank that cannot map a block of a peer would fail in the middle of a call.
func HeapBytes(want int) int {
	if osys.LimitsAddresses() {
		return 0
	}
	return want
}
