package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A probe, the payload of a datagram of Connect, has the size of the largest
// datagrams, unless it is an answer:
//
//	u8   which of the receiver's addresses it was sent to
//	u8   1: an answer to a probe
//	u64  set of the sender's own addresses at which the receiver's probes have come
//	...  zeros
const probeBytes = 10

// Probes go out at once to a peer's first address, a little later to the second,
// and then again and again, less and less often.
const (
	firstAgain = 20 * time.Millisecond
	lastAgain  = 250 * time.Millisecond
	apart      = 5 * time.Millisecond
)

// prober finds, for every peer, an address at which it can be reached.
type prober struct {
	cfg    *Config
	s      *Socket
	offers []offer
	family int

	mu      sync.Mutex // guards the Socket's seals and opens, and what follows
	targets []*target  // by rank; nil for those that are no peers
	left    int        // peers to which no way is known
	found   chan struct{}
	broken  error
}

// target is a peer that is being looked for.
type target struct {
	to    []*net.UDPAddr // in the order in which they are tried
	heard uint64         // own addresses at which its probes have come
	way   int            // the address in to that is known to work, -1
}

func newProber(cfg *Config, s *Socket, offers []offer, f int) (*prober, error) {
	p := &prober{cfg: cfg, s: s, offers: offers, family: f, targets: make([]*target, cfg.Size), found: make(chan struct{})}
	nonces := make([][nonceBytes]byte, cfg.Size)
	for r := range offers {
		nonces[r] = offers[r].nonce
	}
	for r := range cfg.Size {
		if r == cfg.Rank || !cfg.Peers(r) {
			continue
		}
		t := &target{way: -1}
		for _, a := range offers[r].addrs {
			if suits(a, f) {
				t.to = append(t.to, net.UDPAddrFromAddrPort(cfg.Via(r, netip.AddrPortFrom(a, offers[r].ports[f]))))
			}
		}
		l := &link{rank: r}
		var err, err2 error
		l.seal.aead, err = newAEAD(cfg, cfg.Rank, r, nonces)
		l.open.aead, err2 = newAEAD(cfg, r, cfg.Rank, nonces)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("keys of rank %d: %w", r, err)
		}
		l.seal.head = header{from: uint16(cfg.Rank), session: s.session}
		p.targets[r], s.links[r] = t, l
		p.left++
	}
	if p.left == 0 {
		close(p.found)
	}
	return p, nil
}

// run probes until all peers are found or the time is over, and hears how the
// others fared. It answers until they have finished, too.
func (p *prober) run(ctx context.Context) error {
	var reader sync.WaitGroup
	reader.Go(p.listen)
	stop := func() {
		_ = p.s.conn.SetReadDeadline(time.Unix(1, 0))
		reader.Wait()
		p.s.expired = true
	}
	p.search(ctx)
	var silent []int
	p.mu.Lock()
	for r, t := range p.targets {
		if t != nil && t.way < 0 {
			silent = append(silent, r)
		}
	}
	p.mu.Unlock()
	blobs, err := p.cfg.Exchange(ctx, encodeReport(silent))
	stop()
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if err := unreachable(p.cfg, blobs, p.offers, p.family); err != nil {
		return errors.Join(err, p.broken, context.Cause(ctx))
	}
	for r, t := range p.targets {
		if t != nil {
			p.s.links[r].to = t.to[t.way]
		}
	}
	takeTogether(p.s.conn)
	p.s.counters = Counters{}
	return nil
}

// search sends probes.
func (p *prober) search(ctx context.Context) {
	end := time.Now().Add(p.cfg.Timeout)
	wait := firstAgain
	most := 0
	for _, t := range p.targets {
		if t != nil {
			most = max(most, len(t.to))
		}
	}
	for most > 0 && time.Now().Before(end) {
		for k := range most {
			p.mu.Lock()
			for r, t := range p.targets {
				if t != nil && t.way < 0 && k < len(t.to) {
					p.send(r, k, false)
				}
			}
			p.mu.Unlock()
			pause := apart
			if k == most-1 {
				pause = wait
			}
			select {
			case <-p.found:
				return
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		wait = min(2*wait, lastAgain)
	}
}

// send sends a probe to a peer's address. mu is held.
func (p *prober) send(r, k int, answer bool) {
	t, l := p.targets[r], p.s.links[r]
	payload := make([]byte, MaxPayload)
	payload[0] = byte(k)
	if answer {
		payload = payload[:probeBytes]
		payload[1] = 1
	}
	binary.BigEndian.PutUint64(payload[2:], t.heard)
	b := l.seal.seal(make([]byte, 0, MaxDatagram), kindProbe, payload)
	if _, err := p.s.conn.WriteToUDP(b, t.to[k]); err != nil {
		p.broken = err
	}
}

// listen takes in what comes, until the deadline of the socket.
func (p *prober) listen() {
	b := make([]byte, MaxDatagram+1)
	for {
		n, from, err := p.s.conn.ReadFromUDP(b)
		if errors.Is(err, net.ErrClosed) || isTimeout(err) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // of an earlier datagram: nobody listens there yet
			continue
		}
		p.mu.Lock()
		l, k, payload, err := p.s.accept(b[:n])
		switch {
		case err != nil:
			p.s.refuse(from, err)
		case k == kindProbe:
			p.take(l.rank, payload)
		}
		p.mu.Unlock()
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// take takes in a peer's probe. mu is held.
func (p *prober) take(r int, payload []byte) {
	if len(payload) < probeBytes || payload[0] >= 64 {
		return
	}
	t := p.targets[r]
	t.heard |= 1 << payload[0]
	if heard := binary.BigEndian.Uint64(payload[2:]); t.way < 0 {
		for k := range t.to {
			if heard>>k&1 == 0 {
				continue
			}
			t.way = k
			if p.left--; p.left == 0 {
				close(p.found)
			}
			break
		}
	}
	if payload[1] == 1 {
		return
	}
	for k := range t.to {
		if t.way < 0 || t.way == k {
			p.send(r, k, true)
		}
	}
}
