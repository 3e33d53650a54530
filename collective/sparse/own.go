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
	ep, links, err := s.invite(ctx, during, invitation{block: uint32(blockBytes)})
	if err != nil {
		return err
	}
	old := o.ep
	o.ep, o.links, o.omni = ep, links, drive.NewOmni(links, o.aggs)
	return s.shut(ctx, during, old)
}

// invite opens the next links to the aggregators.
func (s *state) invite(ctx context.Context, during string, i invitation) (transport.Endpoint, *drive.Links, error) {
	o := s.own
	o.opened++
	i.number = o.opened
	size := o.size(len(o.aggs))
	ep, err := s.c.OpenWhole(ctx, during, i.encode(), i.purpose(), layoutOf(&o.lanes, size, int(i.block)))
	if err != nil {
		return nil, nil, err
	}
	links, err := drive.Open(ep, &o.lanes, s.c.Rank, size, s.c.Size)
	if err != nil {
		return nil, nil, s.broken(ctx, during, err)
	}
	return ep, links, nil
}

// invitation is what ranks tell aggregators before they open links to them.
type invitation struct {
	number uint32 // of the links, on their communicator
	block  uint32 // bytes of a block
}

const (
	invitationMagic = "trsp\x03"
	invitationBytes = len(invitationMagic) + 8
)

func (i invitation) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(invitationMagic), i.number)
	return binary.LittleEndian.AppendUint32(b, i.block)
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
		}
		switch {
		case n.block == 0 || n.block > mostBlockBytes:
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
		ep, ended, err := h.Open(ctx, i.purpose(), layoutOf(&o.lanes, o.size(h.Aggregators), int(i.block)))
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

// serve serves the ranks of one communicator until they have closed it, or it has
// failed. It closes ep.
func (o *own) serve(ctx context.Context, h *side.Helper, ep transport.Endpoint) error {
	links, err := drive.Open(ep, &o.lanes, h.Ranks+h.Number, o.size(h.Aggregators), h.Ranks)
	if err != nil {
		ep.Abort(transport.Fault{Rank: h.Ranks + h.Number, Text: err.Error()})
		_ = ep.Close()
		return err
	}
	service := drive.NewService(links, o.aggs, mostStreams*h.Aggregators)
	fault, failed := links.Run(ctx, service, &h.Waiter, "serving the ranks")
	if failed && h.Verbose {
		fmt.Fprintf(os.Stderr, "treerun: aggregator %d: a communicator has failed: %s\n", h.Number, fault.Text)
	}
	return ep.Close()
}
