package shm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// parts are the programs of the children in the tests across processes.
var parts = map[string]part{
	"traffic": {layout: pairOf, run: runTraffic},
	"hold":    {layout: starOf, run: runHold},
	"wait":    {layout: starOf, run: runWait},
	"churn":   {layout: ringOf, run: runChurn},
	"nothing": {layout: starOf, run: func(c *child, _ string) error {
		c.say("connected")
		_, _ = c.hear()
		return nil
	}},
	"pingpong": {layout: pairOf, run: runPingPong},
	"stream":   {layout: pairOf, run: runStream},
}

// numbers reads an argument of numbers between spaces.
func numbers(arg string) []int {
	var all []int
	for f := range strings.FieldsSeq(arg) {
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(err) // the test's own mistake
		}
		all = append(all, n)
	}
	return all
}

// pairOf reads slots and slot bytes from the first two numbers.
func pairOf(arg string) transport.Layout {
	n := numbers(arg)
	return testutil.Pair(n[0], n[1])
}

// starOf reads the number of ranks.
func starOf(arg string) transport.Layout {
	return transport.Layout{Size: numbers(arg)[0], Slots: 2, SlotBytes: 4096}
}

// ends returns the child's two ends of its links with a peer.
func (c *child) ends(peer int) (transport.Sender, transport.Receiver, error) {
	s, err := c.e.Sender(0, peer)
	r, err2 := c.e.Receiver(0, peer)
	return s, r, errors.Join(err, err2)
}

func fill(b []byte, i int) {
	for k := range b {
		b[k] = byte(i + 3*k)
	}
}

func checkFill(b []byte, i int) error {
	for k := range b {
		if b[k] != byte(i+3*k) {
			return fmt.Errorf("chunk %d: byte %d of %d is %d, want %d", i, k, len(b), b[k], byte(i+3*k))
		}
	}
	return nil
}

// runTraffic bounces chunks of changing sizes, sleeping on the bell.
func runTraffic(c *child, arg string) error {
	s, r, err := c.ends(1 - c.rank)
	if err != nil {
		return err
	}
	n := numbers(arg)
	size := func(i int) int { return i * 13 % (n[1] + 1) }
	receive := func(i int) error {
		return testutil.Receive(c.e, r, func(h call.Header, b []byte) error {
			if h.Seq != uint64(i) || len(b) != size(i) {
				return fmt.Errorf("chunk %d has %d bytes, want chunk %d of %d", h.Seq, len(b), i, size(i))
			}
			return checkFill(b, i)
		})
	}
	for i := range n[2] {
		if c.rank == 1 {
			if err := receive(i); err != nil {
				return err
			}
		}
		h := call.Header{Seq: uint64(i)}
		c.e.Enter(&h)
		if err := testutil.Send(c.e, s, &h, size(i), func(b []byte) { fill(b, i) }); err != nil {
			return err
		}
		if c.rank == 0 {
			if err := receive(i); err != nil {
				return err
			}
		}
	}
	c.say("done")
	_, err = c.hear() // all children close only after all are done
	return err
}

// runHold runs a child of TestKilledWhileHolding: rank 1 sends one chunk, holds a half-written slot and reports that;
// the other ranks wait for rank 1, or for rank 0, and report how the wait ended.
func runHold(c *child, _ string) error {
	if c.rank != 1 {
		return runWait(c, "")
	}
	s, _, err := c.ends(0)
	if err != nil {
		return err
	}
	if err := testutil.Send(c.e, s, &call.Header{Seq: 7}, 100, func(b []byte) { fill(b, 7) }); err != nil {
		return err
	}
	w, ok, err := s.TryReserve(4096)
	if !ok || err != nil {
		return fmt.Errorf("reserving: %v, %v", ok, err)
	}
	fill(w[:2000], 1)
	c.say("holding")
	_, err = c.hear()
	return err
}

// runWait waits for chunks of a neighbor, and reports each chunk and the error that ended the wait.
func runWait(c *child, _ string) error {
	peer := 0
	if c.rank == 0 {
		peer = 1
	}
	_, r, err := c.ends(peer)
	if err != nil {
		return err
	}
	go c.hearOfLoss()
	for {
		err := testutil.Receive(c.e, r, func(h call.Header, b []byte) error {
			c.say("chunk %d of %d bytes", h.Seq, len(b))
			return checkFill(b, int(h.Seq))
		})
		if err != nil {
			c.say("%v", err)
			return nil
		}
	}
}

// ringOf reads the number of ranks.
func ringOf(arg string) transport.Layout {
	return transport.Layout{Size: numbers(arg)[0], Slots: 4, SlotBytes: 4096}
}

// runChurn sends to the next rank and receives from the one before, endlessly, and reports the error that ended it.
func runChurn(c *child, arg string) error {
	size := numbers(arg)[0]
	s, err := c.e.Sender(0, (c.rank+1)%size)
	if err != nil {
		return err
	}
	r, err := c.e.Receiver(0, (c.rank+size-1)%size)
	if err != nil {
		return err
	}
	go c.hearOfLoss()
	for i := 0; ; i++ {
		h := call.Header{Seq: uint64(i)}
		c.e.Enter(&h)
		err := testutil.Send(c.e, s, &h, i*13%4097, func(b []byte) { fill(b, i) })
		if err == nil {
			err = testutil.Receive(c.e, r, func(h call.Header, b []byte) error { return checkFill(b, int(h.Seq)) })
		}
		if err != nil {
			c.say("%v", err)
			return nil
		}
	}
}

// iterations returns the number of iterations that a benchmark's parent sent.
func (c *child) iterations() (int, error) {
	s, err := c.hear()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

func spinReserve(s transport.Sender, n int) ([]byte, error) {
	for {
		if w, ok, err := s.TryReserve(n); ok || err != nil {
			return w, err
		}
	}
}

func spinPeek(r transport.Receiver, h *call.Header) ([]byte, error) {
	for {
		if w, ok, err := r.TryPeek(h); ok || err != nil {
			return w, err
		}
	}
}

// runPingPong bounces one chunk the given number of times, spinning. The third number is its size in bytes.
func runPingPong(c *child, arg string) error {
	s, r, err := c.ends(1 - c.rank)
	if err != nil {
		return err
	}
	n := numbers(arg)[2]
	count, err := c.iterations()
	if err != nil {
		return err
	}
	data := make([]byte, n)
	var h call.Header
	for i := range count {
		if c.rank == 1 || i > 0 {
			w, err := spinPeek(r, &h)
			if err != nil {
				return err
			}
			copy(data, w)
		}
		w, err := spinReserve(s, n)
		if err != nil {
			return err
		}
		copy(w, data)
		s.Commit(&h)
		if c.rank == 1 || i > 0 {
			r.Release()
		}
	}
	if c.rank == 0 {
		if _, err := spinPeek(r, &h); err != nil {
			return err
		}
		c.say("done")
	}
	_, err = c.hear()
	return err
}

// runStream moves a message of the third number of bytes from rank 0 to rank 1 the given number of times, in chunks of
// whole slots: copied in, copied out.
func runStream(c *child, arg string) error {
	s, r, err := c.ends(1 - c.rank)
	if err != nil {
		return err
	}
	message := make([]byte, numbers(arg)[2])
	fill(message, 1)
	count, err := c.iterations()
	if err != nil {
		return err
	}
	var h call.Header
	for range count {
		for rest := message; len(rest) > 0; {
			n := min(len(rest), c.e.MaxPayload())
			if c.rank == 0 {
				err = streamOut(s, &h, rest[:n])
			} else {
				err = streamIn(r, &h, rest[:n])
			}
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	if c.rank == 1 {
		if err := checkFill(message, 1); err != nil {
			return err
		}
		if err := testutil.Send(c.e, s, &h, 0, func([]byte) {}); err != nil {
			return err
		}
	} else {
		if err := testutil.Receive(c.e, r, func(call.Header, []byte) error { return nil }); err != nil {
			return err
		}
		c.say("done")
	}
	_, err = c.hear()
	return err
}

func streamOut(s transport.Sender, h *call.Header, b []byte) error {
	w, err := spinReserve(s, len(b))
	if err != nil {
		return err
	}
	copy(w, b)
	s.Commit(h)
	return nil
}

func streamIn(r transport.Receiver, h *call.Header, b []byte) error {
	w, err := spinPeek(r, h)
	if err != nil {
		return err
	}
	copy(b, w)
	r.Release()
	return nil
}
