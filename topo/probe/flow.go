package probe

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo/network"
)

// Limits of the data under way: at least minWindow, divided among the flows that share a card, at most maxWindow, and
// between these the bytes that arrive in twice the time that the receiver looks back: more than a long way holds, and
// not enough to fill the queue in front of a slow link.
const (
	minWindow = 64 << 10
	maxWindow = 64 << 20
	lookBack  = 4 * time.Millisecond
)

// pour sends data as the peer grants it, until the given time.
func (l *line) pour(payload []byte, until time.Time, first int) error {
	var granted atomic.Int64
	granted.Store(int64(first))
	more := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- l.receiveGrants(&granted, more) }()
	err := l.pourData(payload, until, &granted, more)
	if err == nil {
		err = l.small(frameEnd, nil)
	}
	if err != nil {
		_ = l.conn.SetDeadline(time.Unix(1, 0)) // the other half of the work must end, too
		return l.fail("sending", errors.Join(err, <-ended))
	}
	if err := <-ended; err != nil {
		return l.fail("receiving grants", err)
	}
	return nil
}

func (l *line) pourData(payload []byte, until time.Time, granted *atomic.Int64, more <-chan struct{}) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for sent := int64(0); ; {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		n := min(granted.Load()-sent, dataBytes)
		if n <= 0 {
			select {
			case <-more:
			case <-timer.C:
				return nil
			}
			continue
		}
		l.out = append(strict.AppendHead(l.out[:0], frameData, int(n)), payload[:n]...)
		if _, err := l.conn.Write(l.out); err != nil {
			return err
		}
		sent += n
	}
}

// receiveGrants receives grants until the peer has seen the end of the data.
func (l *line) receiveGrants(granted *atomic.Int64, more chan<- struct{}) error {
	for {
		kind, _, err := l.frame(frameGrant, frameDone)
		if err != nil || kind == frameDone {
			return err
		}
		var v int64
		if err := binary.Read(l.in, binary.BigEndian, &v); err != nil {
			return err
		}
		if v > granted.Load() {
			granted.Store(v)
		}
		select {
		case more <- struct{}{}:
		default: // a signal is already waiting for it
		}
	}
}

// drain takes the data of a flow that began at the given time, and returns the flow's rates.
func (l *line) drain(begin time.Time, p pace, first int) (*network.Flow, error) {
	c := &curve{begin: begin}
	if n := l.in.Buffered(); n > 0 {
		c.add(begin, n) // came before we did
	}
	l.curve = c
	defer func() { l.curve = nil }()
	w := window{curve: c, least: int64(first), granted: int64(first), back: lookBack + 2*p.trip}
	flow := &network.Flow{}
	for {
		kind, n, err := l.frame(frameData, frameEnd)
		if err != nil {
			return nil, l.fail("receiving", err)
		}
		if kind == frameEnd {
			break
		}
		if _, err := l.in.Discard(n); err != nil {
			return nil, l.fail("receiving", err)
		}
		flow.Bytes += int64(n)
		if grant := w.grant(flow.Bytes); grant > 0 {
			if err := l.small(frameGrant, binary.BigEndian.AppendUint64(nil, uint64(grant))); err != nil {
				return nil, l.fail("granting", err)
			}
		}
	}
	for i := range parts {
		from := p.warm + time.Duration(i)*p.slice
		flow.Slices = append(flow.Slices, c.rate(from, from+p.slice))
	}
	if err := l.small(frameDone, nil); err != nil {
		return nil, l.fail("ending", err)
	}
	return flow, nil
}

// window is the amount of data that may be under way.
type window struct {
	*curve
	least, granted int64
	back           time.Duration
	at             int // of the curve: the first that came since then
}

// grant returns the number of bytes that the peer may send in all, 0 when its last grant suffices.
func (w *window) grant(got int64) int64 {
	last := len(w.when) - 1
	for w.at < last && w.when[w.at] < w.when[last]-w.back {
		w.at++
	}
	before := int64(0)
	if w.at > 0 {
		before = w.total[w.at-1]
	}
	recent := w.total[last] - before
	// A receiver that did not run for a while finds much at once.
	usual := int64(float64(w.total[last]) * float64(w.back) / float64(max(w.when[last]-w.when[0], w.back)))
	size := min(max(2*min(recent, usual+usual/2), w.least), maxWindow)
	if got+size < w.granted+size/4 {
		return 0
	}
	w.granted = got + size
	return w.granted
}
