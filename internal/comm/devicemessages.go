package comm

import (
	"context"
	"runtime"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// Side is what a rank sends another one, or receives from it, on their devices.
type Side struct {
	device.Buffer
	Peer int
}

// message returns what the side is to the devices, nil where there is none.
func (s *Side) message(t kernel.DType) *device.Message {
	if s == nil {
		return nil
	}
	return &device.Message{Peer: s.Peer, Header: engine.DeviceMessage(t, uint64(s.Count)), Memory: s.Addr}
}

// Exchange puts the sending of out and the receiving of in into a stream, of which either may be nil. call names it.
func (d *Devices) Exchange(ctx context.Context, call string, s *cuda.Stream, t kernel.DType, out, in *Side) error {
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
		return c.gaveUp(ctx, call, "")
	case d.Session == nil:
		return c.ArgumentError(call, "the devices are not open: all ranks make another device call first, as BarrierDevice")
	case d.Device != dev:
		return c.ArgumentError(call, "a stream of %v; the communicator's device calls on this rank are on %v", dev, d.Device)
	case out != nil && out.Peer == c.Rank:
		return s.Memcpy(in.Addr, out.Addr, in.Bytes)
	}
	sends, receives := out.message(t), in.message(t)
	if err := d.room(ctx, call, sends); err != nil {
		if ctx.Err() != nil {
			return c.gaveUp(ctx, call, "")
		}
		return err
	}
	for row, side := range map[int]*Side{rowSend: out, rowRecv: in} {
		if side != nil {
			c.tally.count(row, int(side.Bytes))
		}
	}
	err := d.Session.Exchange(s, t, sends, receives)
	runtime.KeepAlive(out)
	runtime.KeepAlive(in)
	if err != nil {
		return d.failed(call, err)
	}
	if fault, failed := c.Endpoint.Aborted(); failed { // the other end has sent another message
		return d.fault(fault, call)
	}
	return nil
}

// checkExchange refuses what devices cannot exchange.
func (d *Devices) checkExchange(call string, s *cuda.Stream, t kernel.DType, out, in *Side) error {
	c := d.c
	switch {
	case s == nil || s.Device() == nil:
		return c.ArgumentError(call, "no stream")
	case !t.OnDevice():
		return c.ArgumentError(call, "device calls have no elements of %v", t)
	case c.Plans.Messages < 0:
		return c.ArgumentError(call, "messages are for %s", c.Plans.NoMessages())
	}
	if err := s.CheckUncaptured(); err != nil {
		return c.ArgumentError(call, "%w", err)
	}
	for _, side := range []*Side{out, in} {
		switch {
		case side == nil:
		case side.Peer < 0 || side.Peer >= c.Size:
			return c.ArgumentError(call, "rank %d of %d", side.Peer, c.Size)
		case side.Problem(s) != nil:
			return c.ArgumentError(call, "%w", side.Problem(s))
		case side.Peer == c.Rank && (out == nil || in == nil || out.Peer != in.Peer || out.Count != in.Count):
			return c.ArgumentError(call, "a rank exchanges with itself by one SendRecvDevice, of as many elements both ways")
		}
	}
	if out != nil && in != nil && out.Span().Overlap(in.Span()) != kernel.Apart {
		return c.ArgumentError(call, "send and recv overlap")
	}
	return nil
}
