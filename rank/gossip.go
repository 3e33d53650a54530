package rank

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/netconn"
)

// gossip carries memberlist's packets over UDP, and its streams over connections of
// the ranks, which have proved themselves. memberlist encrypts both, under a key that
// hangs on the attempt: what another one with the same job's key has sent is noise.
type gossip struct {
	members *members
	key     func(purpose string) []byte // derives one from that of the job
	keys    *memberlist.Keyring
	udp     *net.UDPConn
	at      netip.AddrPort // what memberlist tells others: the metadata has all addresses

	packets chan *memberlist.Packet
	streams chan net.Conn
	stop    context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*gossip)(nil)

// newGossip takes over udp. at is the first address that this rank offers.
func newGossip(udp *net.UDPConn, at netip.Addr, m *members, key func(string) []byte) *gossip {
	g := &gossip{
		members: m, key: key, udp: udp,
		at:      netip.AddrPortFrom(at, uint16(udp.LocalAddr().(*net.UDPAddr).Port)),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
	}
	none := make([]byte, 32)
	rand.Read(none)
	g.keys, _ = memberlist.NewKeyring(nil, none) // it has a good size
	g.useAttempt()
	g.stop, g.cancel = context.WithCancel(context.Background())
	g.wg.Go(g.receive)
	return g
}

// useAttempt has memberlist use the key of the attempt, once that is known. Until then it
// has one that nobody knows.
func (g *gossip) useAttempt() {
	attempt := g.members.auth.Current()
	if attempt == (netconn.Attempt{}) {
		return
	}
	key := g.key(fmt.Sprintf("memberlist of attempt %x", attempt))
	_ = g.keys.AddKey(key) // it has a good size, and then it is there
	_ = g.keys.UseKey(key)
}

// receive passes packets on, which memberlist checks.
func (g *gossip) receive() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := g.udp.ReadFrom(buf)
		if g.stop.Err() != nil {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // ECONNREFUSED of an earlier packet, and the like
			continue
		}
		select {
		case g.packets <- &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: from, Timestamp: time.Now()}:
		case <-g.stop.Done():
			return
		}
	}
}

// take gives memberlist a stream that another rank has opened.
func (g *gossip) take(conn net.Conn) {
	select {
	case g.streams <- conn:
	case <-g.stop.Done():
		conn.Close()
	}
}

// PacketCh and StreamCh are where memberlist takes what comes in.
func (g *gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }
func (g *gossip) StreamCh() <-chan net.Conn           { return g.streams }

// FinalAdvertiseAddr returns what memberlist tells other ranks.
func (g *gossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return g.at.Addr().AsSlice(), int(g.at.Port()), nil
}

// WriteTo sends a packet.
func (g *gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err == nil {
		_, err = g.udp.WriteToUDPAddrPort(b, to)
	}
	return time.Now(), err
}

// WriteToAddress sends a packet to a rank, whose number is the node's name, at
// the address where it was reached before, if it was.
func (g *gossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if to, err := g.rank(a); err == nil {
		if at := g.members.where(to); len(at) > 0 {
			a.Addr = at[0].String()
		}
	}
	return g.WriteTo(b, a.Addr)
}

// rank returns the rank that is the node at an address.
func (g *gossip) rank(a memberlist.Address) (int, error) {
	to, err := strconv.Atoi(a.Name)
	if err != nil || to < 0 || to >= g.members.auth.size {
		return 0, fmt.Errorf("node %.12q at %s is no rank", a.Name, a.Addr)
	}
	return to, nil
}

// DialTimeout would open a stream to a node without a name; ranks have one.
func (g *gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return g.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a rank, whose number is the node's name,
// at the addresses that members knows of it. Shutdown ends it.
func (g *gossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, err := g.rank(a)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.stop, timeout)
	defer cancel()
	conn, err := g.members.reach(ctx, to, gossipChannel)
	if err != nil {
		return nil, err
	}
	g.useAttempt()
	return &stream{conn, context.AfterFunc(g.stop, func() { conn.Close() })}, nil
}

// stream is a connection that ends with the gossip.
type stream struct {
	net.Conn
	forget func() bool
}

// Close ends the stream.
func (s *stream) Close() error {
	s.forget()
	return s.Conn.Close()
}

// Shutdown ends everything. Idempotent.
func (g *gossip) Shutdown() error {
	g.cancel()
	err := g.udp.Close()
	g.wg.Wait()
	return err
}
