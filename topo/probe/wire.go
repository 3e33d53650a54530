package probe

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/treerun/treerun/internal/strict"
)

// A measurement's messages are frames of package strict. These are their kinds, with the contents of the bodies.
const (
	frameSync  byte = iota + 1 // turn (4 bytes), the fields of shared (8 each)
	framePing                  // answer with the same
	frameData                  // counted and dropped
	frameEnd                   // no more data, or pings
	frameGrant                 // bytes of data that may be sent in all (8)
	frameDone                  // the end was seen, no more grants
)

const (
	syncBytes = 4 + 3*8
	dataBytes = 64 << 10 // in a frame, at most
	readBytes = 256 << 10
)

// sizes are those that the bodies of frames may have.
var sizes = strict.FrameSizes{
	frameSync: {syncBytes, syncBytes}, framePing: {0, 0}, frameData: {1, dataBytes}, frameEnd: {0, 0}, frameGrant: {8, 8},
	frameDone: {0, 0},
}

// line is the connection with one other host.
type line struct {
	host, peer int
	name       string // of the peer
	conn       net.Conn
	in         *bufio.Reader
	curve      *curve // of the bytes read; nil: not recorded
	out        []byte
}

func newLine(host, peer int, name string, conn net.Conn) *line {
	l := &line{host: host, peer: peer, name: name, conn: conn}
	l.in = bufio.NewReaderSize((*counted)(l), readBytes)
	return l
}

// counted reads from a line's connection and notes the time and number of the bytes.
type counted line

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	if c.curve != nil && n > 0 {
		c.curve.add(time.Now(), n)
	}
	return n, err
}

// frame reads the head of the next frame, which must be of one of the kinds.
func (l *line) frame(kinds ...byte) (kind byte, n int, err error) {
	kind, n, err = strict.ReadHead(l.in, sizes)
	if err == nil && !slices.Contains(kinds, kind) {
		err = fmt.Errorf("a frame of kind %d, want one of %v", kind, kinds)
	}
	return kind, n, err
}

// small sends a frame with a short body.
func (l *line) small(kind byte, body []byte) error {
	_, err := l.conn.Write(append(strict.AppendHead(nil, kind, len(body)), body...))
	return err
}

// shared is the knowledge that hosts exchange at a barrier.
type shared struct {
	Trip time.Duration // the longest way to and fro that one of them has seen
	Rate int64         // the quickest flow that one of them has seen, bytes a second

	Least int64 // the slowest of a turn; 0: none
}

// syncMessage is the body of a frameSync.
type syncMessage struct {
	Turn   uint32
	Shared shared
}

// join adds another host's knowledge.
func (s *shared) join(other shared) {
	s.Trip, s.Rate = max(s.Trip, other.Trip), max(s.Rate, other.Rate)
	if s.Least == 0 || other.Least > 0 && other.Least < s.Least {
		s.Least = other.Least
	}
}

func (l *line) sendSync(turn int, s shared) error {
	b, err := binary.Append(nil, binary.BigEndian, syncMessage{uint32(turn), s})
	if err == nil {
		err = l.small(frameSync, b)
	}
	if err != nil {
		return l.fail(fmt.Sprintf("coming to turn %d", turn), err)
	}
	return nil
}

// longestTrip is the longest trip that a peer may claim.
const longestTrip = time.Minute

func (l *line) receiveSync(turn int) (shared, error) {
	var m syncMessage
	_, _, err := l.frame(frameSync)
	if err == nil {
		err = binary.Read(l.in, binary.BigEndian, &m)
	}
	if trip := m.Shared.Trip; err == nil && (m.Turn != uint32(turn) || uint64(trip) > uint64(longestTrip)) {
		err = fmt.Errorf("it is at turn %d, and has seen a trip of %d ns", m.Turn, trip)
	}
	if err != nil {
		return shared{}, l.fail(fmt.Sprintf("waiting for it at turn %d", turn), err)
	}
	return m.Shared, nil
}

// The trips of one turn: those that warm up, those that count at least and at
// most, and after which time the least will do.
const (
	warmTrips = 3
	minTrips  = 3
	maxPings  = 40
	tripsTime = 4 * time.Millisecond
)

// ping returns the time to the peer and back: the least of some, since a busy
// host makes them longer.
func (l *line) ping() (time.Duration, error) {
	var trips []time.Duration
	begin := time.Now()
	for i := 0; i < warmTrips+maxPings; i++ {
		t := time.Now()
		err := l.small(framePing, nil)
		if err == nil {
			_, _, err = l.frame(framePing)
		}
		if err != nil {
			return 0, l.fail("small messages to and fro", err)
		}
		if i >= warmTrips {
			trips = append(trips, max(time.Since(t), 1))
		}
		if len(trips) >= minTrips && time.Since(begin) > tripsTime {
			break
		}
	}
	if err := l.small(frameEnd, nil); err != nil {
		return 0, l.fail("small messages to and fro", err)
	}
	return slices.Min(trips), nil
}

// answer answers a ping.
func (l *line) answer() error {
	for {
		kind, _, err := l.frame(framePing, frameEnd)
		if kind == frameEnd {
			return nil
		}
		if err == nil {
			err = l.small(framePing, nil)
		}
		if err != nil {
			return l.fail("answering small messages", err)
		}
	}
}

// payload is data that cannot be made smaller on the way.
func payload() []byte {
	b := make([]byte, dataBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}
