package comm

import (
	"context"
	"runtime"

	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/status"
)

// Exchange puts the sending of out and the receiving of in into a stream, of which either may be nil. call names it.
func (d *Devices) Exchange(ctx context.Context, call string, s *cuda.Stream, t kernel.DType, out,
	in *devices.Message) error {
	c := d.c
	if err := d.checkExchange(call, s, t, out, in); err != nil {
		return err
	}
	if err := c.Claim(call); err != nil {
		return err
	}
	defer c.End()
	switch dev := s.Device(); {
	case ctx.Err() != nil:
		return c.failure.gaveUp(ctx, call, "")
	case d.Session == nil:
		return c.ArgumentError(call, "the devices are not open: all ranks make another device call first, as BarrierDevice")
	case d.Session.Device != dev:
		return c.ArgumentError(call, "a stream of %v; the communicator's device calls on this rank are on %v",
			dev, d.Session.Device)
	}
	if err := d.room(ctx, call, out); err != nil {
		if ctx.Err() != nil {
			return c.failure.gaveUp(ctx, call, "")
		}
		return err
	}
	if out != nil {
		c.Tally.count(status.RowSend, int(out.Bytes))
	}
	if in != nil {
		c.Tally.count(status.RowRecv, int(in.Bytes))
	}
	err := d.Session.Exchange(s, t, out, in)
	runtime.KeepAlive(out)
	runtime.KeepAlive(in)
	if err != nil {
		return d.failed(call, err)
	}
	return nil
}

// checkExchange refuses messages that devices cannot exchange.
func (d *Devices) checkExchange(call string, s *cuda.Stream, t kernel.DType, out, in *devices.Message) error {
	c := d.c
	if !t.OnDevice() {
		return c.ArgumentError(call, "device calls have no elements of %v", t)
	}
	for _, m := range []*devices.Message{out, in} {
		if m == nil {
			continue
		}
		if m.Peer == p2p.NoRank {
			return c.ArgumentError(call, "NoRank is for messages of host memory")
		}
		if err := c.Messages.Check(call, &p2p.Message{Peer: m.Peer}, 0, false); err != nil {
			return err
		}
		if err := devices.Problem(s, m.Buffer); err != nil {
			return c.ArgumentError(call, "%w", err)
		}
		if m.Peer == c.Rank && (out == nil || in == nil || out.Peer != in.Peer || out.Count != in.Count) {
			return c.ArgumentError(call, "a rank exchanges with itself by one SendRecvDevice, of as many elements both ways")
		}
	}
	if out != nil && in != nil && out.Span().Overlap(in.Span()) != kernel.Apart {
		return c.ArgumentError(call, "send and recv overlap")
	}
	return nil
}
