package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// streams carries memberlist's exchanges of lists over connections of the ranks, which have proved themselves. There
// are no packets: nothing gossips, and the mesh detects lost ranks.
type streams struct {
	members  *members
	at       netip.AddrPort // what memberlist sends to others: the metadata has all addresses
	incoming chan net.Conn
	stop     context.Context
	cancel   context.CancelFunc
}

var _ memberlist.NodeAwareTransport = (*streams)(nil)

// newStreams makes the transport of a rank that others reach at an address.
func newStreams(at netip.AddrPort, m *members) *streams {
	s := &streams{members: m, at: at, incoming: make(chan net.Conn)}
	s.stop, s.cancel = context.WithCancel(context.Background())
	return s
}

// take gives memberlist a stream that another rank has opened.
func (s *streams) take(conn net.Conn) {
	select {
	case s.incoming <- conn:
	case <-s.stop.Done():
		conn.Close()
	}
}

// StreamCh returns the channel of incoming streams for memberlist.
func (s *streams) StreamCh() <-chan net.Conn { return s.incoming }

// PacketCh returns nil: there are no packets.
func (s *streams) PacketCh() <-chan *memberlist.Packet { return nil }

// WriteTo and WriteToAddress would send a packet, and return an error.
func (s *streams) WriteTo([]byte, string) (time.Time, error) {
	return time.Time{}, errors.New("memberlist has no packets here")
}

func (s *streams) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return s.WriteTo(b, a.Addr)
}

// FinalAdvertiseAddr returns the address that memberlist sends to other ranks.
func (s *streams) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return s.at.Addr().AsSlice(), int(s.at.Port()), nil
}

// DialTimeout would open a stream to a node without a name; ranks have one.
func (s *streams) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return s.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a rank, whose number is the node's name, at the rank's addresses in members.
// Shutdown ends it.
func (s *streams) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, err := strconv.Atoi(a.Name)
	if err != nil || to < 0 || to >= s.members.auth.size {
		return nil, fmt.Errorf("node %.12q at %s is no rank", a.Name, a.Addr)
	}
	ctx, cancel := context.WithTimeout(s.stop, timeout)
	defer cancel()
	conn, err := s.members.reach(ctx, to, listChannel)
	if err != nil {
		return nil, err
	}
	return &stream{conn, context.AfterFunc(s.stop, func() { conn.Close() })}, nil
}

// stream is a connection that ends together with the transport.
type stream struct {
	net.Conn
	forget func() bool
}

// Close ends the stream.
func (s *stream) Close() error {
	s.forget()
	return s.Conn.Close()
}

// Shutdown ends all streams. Idempotent.
func (s *streams) Shutdown() error {
	s.cancel()
	return nil
}
