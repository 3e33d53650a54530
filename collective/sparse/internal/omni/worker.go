package omni

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Input is what a Worker works on.
type Input struct {
	Blocks block.Set // the non-zero blocks of Send
	Send   []byte    // the tensor; only read
	Recv   []byte    // gets the result; may be the very memory of Send
	// Fill has zeros written to the blocks of Recv that no worker sent. Without
	// it they must hold zeros already. Nothing else of Recv need be initialised.
	Fill bool
	// Union gets the blocks of the result that were carried; nil: nobody asks.
	Union block.Set
}

// Step is what a result leads to.
type Step struct {
	Stream int
	Send   bool // Compose a packet for the stream and send it
	Ended  bool // it was the stream's last result
}

// Worker is one worker's end of Algorithm 1. It goes from tensor to tensor
// (Begin) on the same streams. One goroutine at a time may use it.
//
//	w.Begin(number, shape, input)
//	for s := range shape.Live() { send(s, buf[:w.Compose(s, buf)]) }
//	for !w.Done() {
//		step, err := w.Handle(receive())
//		if step.Send { send(step.Stream, buf[:w.Compose(step.Stream, buf)]) }
//	}
type Worker struct {
	rank   int
	shape  Shape
	digest uint64
	tensor uint32
	in     Input
	rounds []uint32 // by stream; they go on from tensor to tensor
	open   []int    // by stream: columns that have not ended
	left   int      // streams that have not ended
	at     []int32  // by column of all streams: the block whose result it awaits, none at its end
	after  []int32  // by column: the own block to send next
	mine   []bool   // by column: at is a block that this worker sends
	reader reader
	lister lister
}

// NewWorker returns worker rank of all. Its first tensor is still to Begin.
func NewWorker(rank int) *Worker { return &Worker{rank: rank} }

// Begin starts the next tensor. Its number must be the same for all workers and
// aggregators, and another than that of the tensor before, which must be Done.
// Preconditions: Send and Recv have the bytes of the Grid, Blocks its words.
func (w *Worker) Begin(tensor uint32, s Shape, in Input) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if n := s.Grid.Bytes(); w.left != 0 || w.rank >= s.Workers || len(in.Send) != n || len(in.Recv) != n ||
		len(in.Blocks) != block.Words(s.Grid.Blocks()) {
		return fmt.Errorf("omni: worker %d of %d cannot begin tensor %d of %d bytes: %d streams are under way, buffers of "+
			"%d and %d bytes, %d words of blocks",
			w.rank, s.Workers, tensor, n, w.left, len(in.Send), len(in.Recv), len(in.Blocks))
	}
	w.shape, w.digest, w.tensor, w.in = s, s.Digest(), tensor, in
	w.rounds = grown(w.rounds, s.Streams)
	w.open = grown(w.open[:0], s.Streams)
	w.left = s.Live()
	n := min(s.columns(), s.Grid.Blocks())
	w.at, w.after, w.mine = grown(w.at[:0], n), grown(w.after[:0], n), grown(w.mine[:0], n)
	for stream := range w.left {
		w.open[stream] = s.width(stream)
	}
	for c := range n {
		w.at[c], w.mine[c] = int32(c), true // the first block goes even when it is zero
		w.after[c] = w.next(c, int32(c))
	}
	return nil
}

// grown returns x with at least n elements; new ones are zero.
func grown[T any](x []T, n int) []T {
	for len(x) < n {
		var zero T
		x = append(x, zero)
	}
	return x
}

// next returns the first own block of column c behind block b.
func (w *Worker) next(c int, b int32) int32 {
	step, end := w.shape.columns(), w.shape.Grid.Blocks()
	for i := int(b) + step; i < end; i += step {
		if w.in.Blocks.Has(i) {
			return int32(i)
		}
	}
	return none
}

// Done reports whether every stream has ended: Recv has the result.
func (w *Worker) Done() bool { return w.left == 0 }

// Compose writes what the worker has to say in the present round of a stream
// that has not ended to packet, which has room for Shape.MaxPacket bytes, and
// returns its size. Repeated calls write the same until the round's result.
func (w *Worker) Compose(stream int, packet []byte) int {
	s := &w.shape
	p := newWriter(s, &w.lister, packet, Header{Stream: stream, Tensor: w.tensor, Round: w.rounds[stream],
		Worker: w.rank, Digest: w.digest})
	from, n := stream*s.Columns, s.width(stream)
	for k := range n {
		if b := w.at[from+k]; w.carries(from+k, b) {
			lo, hi := s.Grid.Range(int(b), 1)
			to := p.block(hi - lo)
			if w.in.Blocks.Has(int(b)) {
				copy(to, w.in.Send[lo:hi])
			} else {
				clear(to) // a first block; -0, or what is below a threshold, does not count
			}
			p.carry(to)
		}
	}
	for _, carried := range []bool{true, false} {
		for k := range n {
			if c := from + k; w.at[c] != none && w.mine[c] && w.carries(c, w.at[c]) == carried {
				p.entry(k, w.after[c])
			}
		}
	}
	return p.finish()
}

// carries tells whether this worker's packet carries block b, at which column c is.
func (w *Worker) carries(c int, b int32) bool {
	return b != none && w.mine[c] && (!w.shape.Compact || w.in.Blocks.Has(int(b)))
}

// Handle takes in a result. packet may be used again afterwards. An error names
// the stream and is an block.ErrProtocol or block.ErrMismatch, after which the Worker is of
// no further use.
func (w *Worker) Handle(packet []byte) (Step, error) {
	h, err := Decode(packet)
	if err != nil {
		return Step{}, err
	}
	s := &w.shape
	step := Step{Stream: h.Stream}
	switch {
	case h.Worker != -1:
		return step, w.refuse(&h, block.ErrProtocol, fmt.Sprintf("worker %d sent it to a worker", h.Worker))
	case h.Stream >= len(w.rounds):
		return step, w.refuse(&h, block.ErrProtocol, "there is no such stream")
	case h.Tensor != w.tensor || h.Round != w.rounds[h.Stream] || h.Stream >= s.Live() || w.open[h.Stream] == 0:
		return step, w.refuse(&h, block.ErrProtocol,
			fmt.Sprintf("this worker is at tensor %d, round %d", w.tensor, w.rounds[h.Stream]))
	case h.Digest != w.digest:
		return step, w.refuse(&h, block.ErrMismatch, "")
	}
	from := h.Stream * s.Columns
	list, err := w.reader.entries(s, &h, packet, w.at[from:from+s.width(h.Stream)])
	if err == nil && len(list) != w.open[h.Stream] {
		err = fmt.Errorf("%d columns of %d", len(list), w.open[h.Stream])
	}
	for _, e := range list {
		own, at := w.after[from+e.column], w.at[from+e.column]
		switch {
		case err != nil:
		case e.data == nil && int(at) >= s.columns():
			err = fmt.Errorf("block %d is missing", at)
		case e.next > own:
			err = fmt.Errorf("column %d goes on with block %d, but this worker still has block %d", e.column, e.next, own)
		}
	}
	if err != nil {
		return step, w.refuse(&h, block.ErrProtocol, err.Error())
	}
	for _, e := range list {
		if w.advance(from+e.column, e) {
			step.Send = true
		}
	}
	w.rounds[h.Stream]++
	step.Ended = w.open[h.Stream] == 0
	if step.Ended {
		w.left--
	}
	return step, nil
}

// advance stores a result and moves column c to the block that is wanted next.
// It reports whether that is one of this worker's.
func (w *Worker) advance(c int, e entry) bool {
	g, b := w.shape.Grid, int(w.at[c])
	switch to := g.Of(w.in.Recv, b, 1); {
	case e.data != nil:
		e.put(&w.shape, to)
		if w.in.Union != nil {
			w.in.Union.Add(b)
		}
	case w.in.Fill:
		clear(to)
	}
	if w.in.Fill {
		for i := b + w.shape.columns(); i < min(int(e.next), g.Blocks()); i += w.shape.columns() {
			clear(g.Of(w.in.Recv, i, 1))
		}
	}
	w.at[c] = e.next
	w.mine[c] = e.next != none && e.next == w.after[c]
	switch {
	case e.next == none:
		w.open[c/w.shape.Columns]--
	case w.mine[c]:
		w.after[c] = w.next(c, e.next)
	}
	return w.mine[c]
}

// refuse returns the error of a packet.
func (w *Worker) refuse(h *Header, kind error, why string) error {
	return h.refused(fmt.Sprintf("worker %d, result", w.rank), kind, why)
}
