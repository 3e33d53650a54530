package rank

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// gossip carries memberlist's packets over UDP, and its streams over
// connections that the acceptor has let in. It is memberlist's view of the network;
// memberlist encrypts what goes over it once more.
type gossip struct {
	acceptor      *acceptor
	authenticator *authenticator
	udp           *net.UDPConn
	members       *members
	label         []byte // how every packet of the job begins

	packets chan *memberlist.Packet
	stop    context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*gossip)(nil)

// errPacket is a datagram of no job of this key.
var errPacket = errors.New("a datagram that is not of treerun")

// labelByte begins every labelled packet of memberlist.
const labelByte = 244

// newGossip takes over udp. members knows where ranks listen.
func newGossip(d *acceptor, udp *net.UDPConn, m *members, label string) *gossip {
	g := &gossip{
		acceptor: d, authenticator: d.authenticator, udp: udp, members: m,
		label:   append([]byte{labelByte, byte(len(label))}, label...),
		packets: make(chan *memberlist.Packet),
	}
	g.stop, g.cancel = context.WithCancel(context.Background())
	g.wg.Go(g.receive)
	return g
}

// open returns the packet in a datagram of this attempt. memberlist's own encryption
// has nothing against packets that another job with the same key has sent.
func (g *gossip) open(b []byte) ([]byte, error) {
	if len(b) < len(g.label)+tagBytes || !bytes.HasPrefix(b, g.label) {
		return nil, errPacket
	}
	packet, tag := b[:len(b)-tagBytes], b[len(b)-tagBytes:]
	if !hmac.Equal(tag, g.authenticator.tag(packet)) {
		return nil, errAttempt
	}
	return packet, nil
}

// seal makes a datagram of a packet. Nothing is sent before the attempt is known.
func (g *gossip) seal(packet []byte) ([]byte, error) {
	tag := g.authenticator.tag(packet)
	if tag == nil {
		return nil, errors.New("this rank has not met rank 0 yet")
	}
	return slices.Concat(packet, tag), nil
}

// receive passes packets on. What does not begin as packets of this job do is
// dropped here, at no more cost than reading it.
func (g *gossip) receive() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := g.udp.ReadFrom(buf)
		at := time.Now()
		if g.stop.Err() != nil {
			return
		}
		if err != nil {
			g.acceptor.pause(time.Millisecond) // ECONNREFUSED of an earlier packet, and the like
			continue
		}
		packet, err := g.open(buf[:n])
		if err != nil {
			g.acceptor.refused(from, err)
			continue
		}
		p := &memberlist.Packet{Buf: bytes.Clone(packet), From: from, Timestamp: at}
		select {
		case g.packets <- p:
		case <-g.stop.Done():
			return
		}
	}
}

// PacketCh and StreamCh are where memberlist takes what comes in.
func (g *gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }
func (g *gossip) StreamCh() <-chan net.Conn           { return g.acceptor.streams }

// FinalAdvertiseAddr returns what memberlist tells other ranks: the first
// address that this rank offers. The others stand in the metadata.
func (g *gossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return g.acceptor.net.offered[0].IP.AsSlice(), g.udp.LocalAddr().(*net.UDPAddr).Port, nil
}

func (g *gossip) send(packet []byte, to netip.AddrPort) (time.Time, error) {
	b, err := g.seal(packet)
	if err == nil {
		_, err = g.udp.WriteToUDPAddrPort(b, to)
	}
	return time.Now(), err
}

// WriteTo sends a packet.
func (g *gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	return g.send(b, to)
}

// WriteToAddress sends a packet to a rank, whose number is the node's name, at
// the address where it was reached before, if it was.
func (g *gossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if to, err := strconv.Atoi(a.Name); err == nil {
		if at := g.members.where(to); len(at) > 0 {
			return g.send(b, at[0])
		}
	}
	return g.WriteTo(b, a.Addr)
}

// DialTimeout would open a stream to a node without a name; ranks have one.
func (g *gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return g.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a rank, whose number is the node's name,
// at the address that members knows of it. Shutdown ends it.
func (g *gossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, err := strconv.Atoi(a.Name)
	if err != nil {
		return nil, fmt.Errorf("stream to %s, which is no rank", a.Addr)
	}
	ctx, cancel := context.WithTimeout(g.stop, timeout)
	defer cancel()
	conn, err := g.members.reach(ctx, g.authenticator, to, gossipChannel)
	if err != nil {
		return nil, err
	}
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

// Shutdown ends everything but the acceptor. Idempotent.
func (g *gossip) Shutdown() error {
	g.cancel()
	err := g.udp.Close()
	g.wg.Wait()
	return err
}
