package datagram

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// How many datagrams are queued before they are sent, and how many messages, each of
// one or several datagrams, one system call receives at most.
const (
	batch    = 64
	incoming = 16
)

// bufferBytes is what the system is asked to keep of datagrams that nobody has
// read. It gives less where net.core.rmem_max says so.
const bufferBytes = 4 << 20

// batcher is an ipv4.PacketConn or an ipv6.PacketConn.
type batcher interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
	WriteBatch(ms []ipv4.Message, flags int) (int, error)
}

// link is what a Socket knows of a peer.
type link struct {
	rank int
	to   *net.UDPAddr
	seal sealer
	open opener
}

// Socket is one rank's end. One goroutine at a time may use it; Close may be
// called beside.
type Socket struct {
	conn    *net.UDPConn
	batcher batcher
	session uint32
	links   []*link // by rank; nil for those that are no peers
	log     *slog.Logger
	warned  bool // somebody was refused, and people were told

	out      [][]byte // sealed; of those from grouped on it is also known to whom
	to       []*link
	grouped  int // how many of out are in groups, or sent
	groups   groups
	order    []int // scratch: of group
	in       []ipv4.Message
	ready    int // messages in in, of which those from at on are to be looked at
	at       int
	offset   int  // in message at: where its next datagram begins
	expired  bool // the read deadline has passed
	counters Counters
	failure  error // of the latest datagram that could not be sent
}

// newSocket takes over a connection.
func newSocket(conn *net.UDPConn, cfg *Config) *Socket {
	s := &Socket{conn: conn, session: sessionOf(cfg), links: make([]*link, cfg.Size), log: cfg.Log.With("rank", cfg.Rank)}
	if conn.LocalAddr().(*net.UDPAddr).IP.To4() != nil {
		s.batcher = ipv4.NewPacketConn(conn)
	} else {
		s.batcher = ipv6.NewPacketConn(conn)
	}
	_ = conn.SetReadBuffer(bufferBytes)
	_ = conn.SetWriteBuffer(bufferBytes)
	s.in = make([]ipv4.Message, incoming)
	for i := range s.in {
		s.in[i].Buffers = [][]byte{make([]byte, mostTogether+1)}
		s.in[i].OOB = make([]byte, controlBytes)
	}
	s.out, s.to = make([][]byte, 0, batch), make([]*link, 0, batch)
	room := make([]byte, batch*MaxDatagram)
	for i := range s.out[:batch] {
		s.out[:batch][i] = room[i*MaxDatagram : (i+1)*MaxDatagram : (i+1)*MaxDatagram]
	}
	return s
}

// Room returns how many datagrams can be queued before a Flush.
func (s *Socket) Room() int { return cap(s.out) - len(s.out) }

// Send queues a datagram to a peer, up to MaxPayload bytes of payload, which it
// copies; Flush sends. false: there is no room, as the system takes no more.
func (s *Socket) Send(to int, payload []byte) bool {
	if s.Room() == 0 {
		s.Flush()
	}
	if s.Room() == 0 {
		return false
	}
	l := s.links[to]
	n := len(s.out)
	s.out = s.out[:n+1]
	s.out[n] = l.seal.seal(s.out[n][:0], kindData, payload)
	s.to = append(s.to, l)
	return true
}

// Flush sends what is queued, as far as the system takes it at once, and reports
// whether nothing is left.
func (s *Socket) Flush() bool {
	for {
		if len(s.groups.rest()) == 0 {
			s.groups.clear()
			if s.grouped == len(s.out) {
				s.out, s.to, s.grouped = s.out[:0], s.to[:0], 0
				return true
			}
			s.group()
		}
		n, err := s.batcher.WriteBatch(s.groups.rest(), syscall.MSG_DONTWAIT)
		switch {
		case n > 0:
			s.counters.Sent += s.groups.took(n)
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, net.ErrClosed):
			return false
		case errors.Is(err, syscall.EINTR):
		case cannotSegment(err) && s.groups.split():
		default:
			// The first one cannot go: as if the network had lost it.
			s.failure = err
			s.counters.Unsent += s.groups.took(1)
		}
	}
}

// group puts what is queued into messages, the largest datagrams first, since those of a
// message must be of one size but for a shorter last one. Nobody relies on their order.
func (s *Socket) group() {
	s.order = s.order[:0]
	for i := s.grouped; i < len(s.out); i++ {
		s.order = append(s.order, i)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return len(s.out[b]) - len(s.out[a]) })
	for _, i := range s.order {
		s.groups.add(s.to[i], s.out[i])
	}
	s.grouped = len(s.out)
}

// Failure returns the system's error for the latest datagram that it refused to
// send, nil if there was none.
func (s *Socket) Failure() error { return s.failure }

// Next returns the next genuine datagram that has come: the rank that sent it, and
// its payload, which is valid until the next call. It never waits; false: there is
// none.
func (s *Socket) Next() (from int, payload []byte, ok bool, err error) {
	for {
		if s.at == s.ready {
			s.at, s.ready = 0, 0
			if s.ready, err = s.read(syscall.MSG_DONTWAIT, time.Time{}); err != nil || s.ready == 0 {
				return 0, nil, false, err
			}
		}
		m := &s.in[s.at]
		begin, end := s.offset, min(s.offset+sizeOfSegments(m.OOB[:m.NN], m.N), m.N)
		if s.offset = end; end == m.N {
			s.at, s.offset = s.at+1, 0
		}
		l, k, payload, err := s.accept(m.Buffers[0][begin:end:end])
		if err != nil {
			s.refuse(m.Addr, err)
			continue
		}
		if k == kindData { // else a late probe of Connect
			s.counters.Received++
			return l.rank, payload, true, nil
		}
	}
}

// Wait waits until Next has something to look at, or for so long.
func (s *Socket) Wait(longest time.Duration) {
	if s.at < s.ready || longest <= 0 {
		return
	}
	n, err := s.read(0, time.Now().Add(longest))
	if err == nil {
		s.at, s.ready = 0, n
	}
}

// read receives datagrams into in.
func (s *Socket) read(flags int, until time.Time) (int, error) {
	if s.expired || !until.IsZero() {
		if err := s.conn.SetReadDeadline(until); err != nil {
			return 0, err
		}
		s.expired = !until.IsZero()
	}
	n, err := s.batcher.ReadBatch(s.in, flags)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
		return 0, nil
	}
	return 0, fmt.Errorf("datagram: receiving at %v: %w", s.conn.LocalAddr(), err)
}

// accept checks a datagram and decrypts it in place.
func (s *Socket) accept(b []byte) (*link, kind, []byte, error) {
	h, err := parse(b)
	if err != nil {
		return nil, 0, nil, err
	}
	if h.session != s.session || int(h.from) >= len(s.links) || s.links[h.from] == nil {
		return nil, 0, nil, errAlien
	}
	l := s.links[h.from]
	payload, err := l.open.open(&h, b)
	return l, h.kind, payload, err
}

// refuse counts a datagram that is none of ours, and tells people of the first.
func (s *Socket) refuse(from net.Addr, err error) {
	s.counters.Refused++
	switch err {
	case errMalformed:
		s.counters.Malformed++
	case errAlien:
		s.counters.Alien++
	case errRepeated: // networks do that, too
		s.counters.Repeated++
		return
	default:
		s.counters.Forged++
	}
	if !s.warned {
		s.warned = true
		s.log.Warn("treerun: refused a datagram; others are refused without a word", "from", from, "error", err)
	}
}

// Counters returns what has been counted.
func (s *Socket) Counters() Counters {
	c := s.counters
	for _, l := range s.links {
		if l != nil {
			c.Lost += l.open.seen.missing()
		}
	}
	return c
}

// LocalAddr returns where the socket listens.
func (s *Socket) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// Close gives the socket back. What is queued is dropped. Idempotent.
func (s *Socket) Close() error {
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
