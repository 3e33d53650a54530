package sparse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/side"
	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
)

// own is what connects the ranks with aggregators that are no ranks. These have the
// numbers behind the ranks' on the links.
type own struct {
	ranks  int
	lanes  drive.Lanes
	aggs   []int // the aggregators' stars, by their numbers in lanes
	opened uint32
	ep     transport.Endpoint
	omni   *drive.Omni // over links
	links  *drive.Links
	sock   *datagram.Socket
	lossy  *drive.Lossy // over sock, and links beside it; nil until a call
	beside *drive.Links
}

func newOwn(ranks, aggregators int) *own {
	o := &own{ranks: ranks}
	for a := range aggregators {
		star := topo.Tree{Root: ranks + a, Parent: make([]int, o.size(aggregators))}
		for r := range star.Parent {
			star.Parent[r] = star.Root
			if r >= ranks {
				star.Parent[r] = -1
			}
		}
		o.aggs = append(o.aggs, o.lanes.Add(star))
	}
	return o
}

func (o *own) size(aggregators int) int { return o.ranks + aggregators }

// openOwn opens links to the aggregators whose slots hold a block of so many bytes,
// unless they are open. All ranks call it together.
func (s *state) openOwn(ctx context.Context, during string, blockBytes int) error {
	o := s.own
	if o.ep != nil && o.ep.MaxPayload() >= blockBytes+packetExtra {
		return nil
	}
	ep, links, _, err := s.invite(ctx, during, invitation{block: uint32(blockBytes)})
	if err != nil {
		return err
	}
	old := o.ep
	o.ep, o.links, o.omni = ep, links, drive.NewOmni(links, o.aggs)
	return s.shut(ctx, during, old)
}

// openOwnUDP opens a socket to the aggregators, and the links beside it, unless they
// are open. All ranks call it together.
func (s *state) openOwnUDP(ctx context.Context, during string) error {
	o := s.own
	if o.lossy != nil {
		return nil
	}
	_, links, sock, err := s.invite(ctx, during, invitation{over: UDP})
	if err != nil {
		return err
	}
	o.beside, o.sock, o.lossy = links, sock, drive.NewLossy(links, o.aggs, sock, s.c.PeerTimeout)
	return nil
}

// peers says with whom a member exchanges datagrams: ranks with aggregators.
func (o *own) peers(self int) func(member int) bool {
	return func(member int) bool { return (member < o.ranks) != (self < o.ranks) }
}

// invite opens the next links to the aggregators, and over UDP a socket besides.
func (s *state) invite(ctx context.Context, during string, i invitation) (transport.Endpoint, *drive.Links, *datagram.Socket, error) {
	o := s.own
	o.opened++
	i.number = o.opened
	size := o.size(len(o.aggs))
	var peers func(member int) bool
	if i.over == UDP {
		peers = o.peers(s.c.Rank)
	}
	ep, sock, err := s.c.OpenWhole(ctx, during, i.encode(), i.purpose(), o.layout(size, i), peers)
	if err != nil {
		return nil, nil, nil, err
	}
	links, err := drive.Open(ep, &o.lanes, s.c.Rank, size, s.c.Size)
	if err != nil {
		return nil, nil, nil, s.broken(ctx, during, err)
	}
	return ep, links, sock, nil
}

// layout returns the links of an invitation. Those beside a socket carry calls alone.
func (o *own) layout(size int, i invitation) transport.Layout {
	if i.over == UDP {
		return o.lanes.Layout(size, linkSlots, besideSlot)
	}
	return layoutOf(&o.lanes, size, int(i.block))
}

// besideSlot is the bytes of a slot of links beside a socket.
const besideSlot = 2 * slotsQuantum

// invitation is what ranks tell aggregators before they open links to them.
type invitation struct {
	number uint32    // of the links, on their communicator
	block  uint32    // bytes of a block; 0 over UDP, where links do not carry them
	over   Transport // UDP: a socket, too
}

const (
	invitationMagic = "trsp\x02"
	invitationBytes = len(invitationMagic) + 9
)

func (i invitation) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(invitationMagic), i.number)
	return append(binary.LittleEndian.AppendUint32(b, i.block), byte(i.over))
}

// purpose names the links.
func (i invitation) purpose() string { return fmt.Sprintf("aggregators %d", i.number) }

var errInvitations = errors.New("sparse: ranks invite to different links")

// parseInvitations reads what all ranks have said, which must be the same.
func parseInvitations(all [][]byte) (i invitation, err error) {
	for r, b := range all {
		if len(b) != invitationBytes || string(b[:len(invitationMagic)]) != invitationMagic {
			return i, fmt.Errorf("sparse: rank %d says something else than an invitation, %d bytes", r, len(b))
		}
		n := invitation{
			number: binary.LittleEndian.Uint32(b[len(invitationMagic):]),
			block:  binary.LittleEndian.Uint32(b[len(invitationMagic)+4:]),
			over:   Transport(b[len(invitationMagic)+8]),
		}
		switch {
		case n.over >= transportEnd:
			return i, fmt.Errorf("sparse: rank %d invites to transport %d, which this build does not know", r, n.over)
		case n.over == UDP && n.block != 0:
			return i, fmt.Errorf("sparse: rank %d invites to UDP, and for blocks of %d bytes on the links", r, n.block)
		case n.over == Links && (n.block == 0 || n.block > mostBlockBytes):
			return i, fmt.Errorf("sparse: rank %d invites for blocks of %d bytes, want 1 to %d", r, n.block, mostBlockBytes)
		case r > 0 && n != i:
			return i, fmt.Errorf("%w: rank %d to %+v, rank %d to %+v", errInvitations, r, n, r-1, i)
		}
		i = n
	}
	if len(all) == 0 {
		err = fmt.Errorf("sparse: an invitation of nobody")
	}
	return i, err
}

// Serve is what an aggregator does that treerun has started beside the ranks: it opens
// links when the ranks do, and serves their calls, one after the other on each
// communicator, until the ranks have closed their World or one has failed, which the
// error says. A communicator that fails, also while its links are opened, is the end of
// its service only. It costs nothing while nobody calls.
func Serve(ctx context.Context, w collective.Assistant) error {
	h := collective.Assist(w)
	var services sync.WaitGroup
	defer services.Wait()
	for {
		blobs, err := h.Next(ctx)
		if err != nil {
			return err
		}
		i, err := parseInvitations(blobs[:h.Ranks])
		switch {
		case errors.Is(err, errInvitations):
			continue // the ranks have seen it, too, and do not open links
		case err != nil:
			return err
		}
		o := newOwn(h.Ranks, h.Aggregators)
		ep, ended, err := o.accept(ctx, h, i)
		if err != nil {
			if _, lost := w.Failure(); lost != nil {
				return err
			}
			complain(h, err) // the ranks' communicator has failed, others have not
			continue
		}
		services.Go(func() {
			defer ended()
			if err := o.serve(ctx, h, ep); err != nil {
				complain(h, err)
			}
		})
	}
}

func complain(h *side.Helper, err error) {
	fmt.Fprintf(os.Stderr, "treerun: aggregator %d: %v\n", h.Number, err)
}

// accept opens what the ranks have invited an aggregator to.
func (o *own) accept(ctx context.Context, h *side.Helper, i invitation) (ep transport.Endpoint, ended func(), err error) {
	ep, ended, err = h.Open(ctx, i.purpose(), o.layout(o.size(h.Aggregators), i))
	if err != nil || i.over != UDP {
		return ep, ended, err
	}
	if o.sock, err = h.Datagrams(ctx, i.purpose(), o.peers(h.Ranks+h.Number)); err != nil {
		ended()
		return nil, nil, errors.Join(err, ep.Close())
	}
	return ep, ended, nil
}

// serve serves the ranks of one communicator until they have closed it, or it has
// failed. It closes ep and the socket, if there is one.
func (o *own) serve(ctx context.Context, h *side.Helper, ep transport.Endpoint) error {
	if o.sock != nil {
		defer o.sock.Close()
	}
	links, err := drive.Open(ep, &o.lanes, h.Ranks+h.Number, o.size(h.Aggregators), h.Ranks)
	if err != nil {
		ep.Abort(transport.Fault{Rank: h.Ranks + h.Number, Text: err.Error()})
		_ = ep.Close()
		return err
	}
	streams := mostStreams * h.Aggregators
	var service drive.Exchange
	if o.sock == nil {
		service = drive.NewService(links, o.aggs, streams)
	} else {
		service = drive.NewLossyService(links, o.aggs, o.sock, streams)
	}
	fault, failed := links.Run(ctx, service, &h.Waiter, "serving the ranks")
	if failed && h.Verbose {
		fmt.Fprintf(os.Stderr, "treerun: aggregator %d: a communicator has failed: %s\n", h.Number, fault.Text)
	}
	return ep.Close()
}
