//go:build linux

package rank

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
)

// A rank of an attempt that has not ended yet cannot reach the ranks of the next one,
// which has the same id, secret and epoch and listens at the same address: restarts of
// a LeaderWorkerSet.
func TestRankOfAnEarlierAttempt(t *testing.T) {
	const size = 2
	old := newTestJob(t, size)
	seed := testutil.FreeAddress(t)
	inTime(t, func() {
		for r, err := range old.each(func(r int) (err error) {
			old.worlds[r], err = start(t.Context(), old.seedConfig(r, seed))
			return err
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	})
	defer old.close()
	old.worlds[0].release() // as if killed; rank 1 is slow to learn of it

	j := newTestJob(t, size)
	j.id, j.secret = old.id, old.secret
	zero := make(chan error, 1)
	go func() {
		var err error
		j.worlds[0], err = start(t.Context(), j.seedConfig(0, seed))
		zero <- err
	}()
	defer j.close()
	inTime(t, func() {
		late, refused := old.worlds[1], false
		for !refused {
			conn, err := late.auth.dial(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(seed)}, 0,
				listChannel)
			if err == nil {
				conn.Close()
				t.Error("a rank of the attempt before was let in")
				break
			}
			refused = errors.Is(err, errAttempt)
			time.Sleep(time.Millisecond)
		}
		if late.members.join(0) {
			t.Error("a rank of the attempt before has given its list to the next one")
		}
		var err error
		if j.worlds[1], err = start(t.Context(), j.seedConfig(1, seed)); err != nil {
			t.Errorf("rank 1: %v", err)
		}
		if err := <-zero; err != nil {
			t.Errorf("rank 0: %v", err)
		}
	})
	if !t.Failed() {
		j.mustGather(constant(100))
	}
}

// A rank that knows the attempt of a job is admitted by ranks that know the same one. A rank that does not know it may
// join at rank 0 and do nothing else.
func TestAttempts(t *testing.T) {
	none, this, other := netconn.Attempt{}, netconn.Attempt{1}, netconn.Attempt{2}
	with := func(self int, id netconn.Attempt) *authenticator {
		g := newAuthenticator([]byte("k"), self, 8)
		g.attempt.Store(nil)
		if id != none {
			g.attempt.Store(&id)
		}
		return g
	}
	for _, c := range []struct {
		from, to netconn.Attempt
		rank     int // of the accepting side
		channel  channel
		ok       bool
	}{
		{this, this, 0, listChannel, true}, {this, this, 3, dataChannel, true},
		{none, this, 0, listChannel, true}, {none, this, 0, dataChannel, false}, {none, this, 3, listChannel, false},
		{other, this, 0, listChannel, false}, {other, this, 3, dataChannel, false},
		{this, none, 3, listChannel, false}, {none, none, 3, listChannel, false},
	} {
		client := with(5, c.from)
		_, _, dialErr, acceptErr := shakeOn(c.channel, client, with(c.rank, c.to), c.rank, nil, nil)
		if ok := dialErr == nil && acceptErr == nil; ok != c.ok {
			t.Errorf("%+v: %v, %v", c, dialErr, acceptErr)
		}
		if want := c.to; c.ok && client.Current() != want {
			t.Errorf("%+v: learned %x", c, client.Current())
		}
	}
}
