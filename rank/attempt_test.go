package rank

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
)

// recorded returns datagrams as the ranks of a job send them to each other: pings,
// with the news that their lists hold.
func recorded(t *testing.T, j *testJob) (packets [][]byte) {
	t.Helper()
	at, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for _, w := range j.worlds {
		w.members.list.UpdateNode(time.Second) // there is news
		w.members.list.Ping("a listener", at.LocalAddr())
	}
	buf := make([]byte, 1<<16)
	for {
		if err := at.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, _, err := at.ReadFrom(buf)
		if err != nil {
			break
		}
		packets = append(packets, append([]byte(nil), buf[:n]...))
	}
	if len(packets) < len(j.worlds) {
		t.Fatalf("%d datagrams were recorded", len(packets))
	}
	return packets
}

// replay sends datagrams to a rank from an address of its own.
func replay(t *testing.T, to string, packets [][]byte) {
	t.Helper()
	from, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for range 3 {
		for _, p := range packets {
			if _, err := from.Write(p); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Log(err) // nobody listens there yet
			}
		}
	}
	time.Sleep(300 * time.Millisecond) // until they have been read
}

// What ranks of a job have sent by UDP does nothing to a later one with the same id,
// secret and seed, as jobs have under launchers that give no id: neither while it
// starts nor while it runs.
func TestGossipOfAnEarlierJob(t *testing.T) {
	const size = 2
	earlier := newTestJob(t, size).meetAtSeed()
	packets := recorded(t, earlier)
	earlier.close()

	j := newTestJob(t, size)
	j.id, j.secret = earlier.id, earlier.secret
	var log warnings // memberlist says what it cannot read, and what another rank's place takes
	j.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	seed := testutil.FreeAddress(t)
	zero := make(chan error, 1)
	go func() {
		var err error
		j.worlds[0], err = start(t.Context(), j.seedConfig(0, seed))
		zero <- err
	}()
	defer j.close()
	inTime(t, func() {
		for { // until it listens
			if c, err := net.Dial("tcp", seed); err == nil {
				c.Close()
				break
			}
			time.Sleep(time.Millisecond)
		}
		replay(t, seed, packets)
		var err error
		if j.worlds[1], err = start(t.Context(), j.seedConfig(1, seed)); err != nil {
			t.Errorf("rank 1: %v", err)
		}
		if err := <-zero; err != nil {
			t.Errorf("rank 0: %v", err)
		}
	})
	if t.Failed() {
		return
	}
	for r := range size {
		replay(t, j.worlds[0].members.address(r), packets)
	}
	j.mustGather(constant(100))
	log.mu.Lock()
	defer log.mu.Unlock()
	if said := strings.Join(log.seen, ""); strings.Contains(said, "Conflicting address") ||
		!strings.Contains(said, "Decrypt packet failed") {
		t.Errorf("something was taken in from another job, or nothing came:\n%s", said)
	}
}

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
	old.worlds[0].shut() // as if killed; rank 1 is slow to learn of it

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
				gossipChannel)
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

// Who knows the attempt of a job is let in by those who know the same, who does not
// know it may join at rank 0 and do nothing else.
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
		{this, this, 0, gossipChannel, true}, {this, this, 3, dataChannel, true},
		{none, this, 0, gossipChannel, true}, {none, this, 0, dataChannel, false}, {none, this, 3, gossipChannel, false},
		{other, this, 0, gossipChannel, false}, {other, this, 3, dataChannel, false},
		{this, none, 3, gossipChannel, false}, {none, none, 3, gossipChannel, false},
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
