package omni

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Answer is what a packet leads to.
type Answer struct {
	Stream int
	// Packet is a result to send to all workers, nil if there is none. It is valid until the
	// next packet of the stream is handled.
	Packet []byte
}

// Aggregator is one aggregator's end of Algorithm 1. It goes from tensor to
// tensor (Begin) on the same slots. One goroutine at a time may use it.
type Aggregator struct {
	index    int
	shape    Shape
	digest   uint64
	tensor   uint32
	begun    bool
	combiner *block.Combiner
	slots    []slot // slot i has stream i*Aggregators + index
	left     int    // slots that have not ended
	awaited  []int  // by worker: slots that wait for a packet of it
	reader   reader
	lister   lister
	sources  [][]byte // scratch: what is reduced
}

// slot is where the blocks of one stream are added up.
type slot struct {
	round  uint32
	open   int     // columns that have not ended
	wait   int     // columns that wait for somebody
	at     []int32 // by column: the block that is being added up
	owners []int32 // by column: the workers whose block is still to come
	next   []int32 // by worker and column: the worker's next block; at most at: it is to come
	has    []bool  // by worker and column: the worker's block is in held
	held   []byte  // by worker and column
	result []byte  // the packet of the last round that was complete
	data   []int   // scratch: columns with blocks
	zeros  []int   // scratch: columns that are zero
	ends   []int32 // scratch by column: the least next
}

// NewAggregator returns aggregator index of all. Its first tensor is still to
// Begin.
func NewAggregator(index int) *Aggregator { return &Aggregator{index: index} }

// Begin starts the next tensor: see Worker.Begin. The number of aggregators may
// not change from tensor to tensor.
func (a *Aggregator) Begin(tensor uint32, s Shape) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if a.left != 0 || a.index >= s.Aggregators || a.begun && s.Aggregators != a.shape.Aggregators {
		return fmt.Errorf("omni: aggregator %d of %d (before: %d) cannot begin tensor %d: %d streams are under way",
			a.index, s.Aggregators, a.shape.Aggregators, tensor, a.left)
	}
	if a.combiner == nil || a.combiner.Op() != s.Op || a.combiner.DType() != s.DType {
		a.combiner = block.NewCombiner(s.Op, s.DType)
	}
	a.shape, a.digest, a.tensor, a.begun = s, s.Digest(), tensor, true
	a.slots = grown(a.slots, (s.Streams-a.index+s.Aggregators-1)/s.Aggregators)
	a.left, a.awaited = 0, grown(a.awaited[:0], s.Workers)
	for stream := a.index; stream < s.Live(); stream += s.Aggregators {
		a.slots[stream/s.Aggregators].begin(&s, stream)
		a.left++
	}
	for w := range a.awaited {
		a.awaited[w] = a.left
	}
	return nil
}

func (t *slot) begin(s *Shape, stream int) {
	n := s.width(stream)
	t.open, t.wait = n, n
	t.at, t.owners, t.ends = grown(t.at[:0], n), grown(t.owners[:0], n), grown(t.ends[:0], n)
	t.next, t.has = grown(t.next[:0], n*s.Workers), grown(t.has[:0], n*s.Workers)
	if size := n * s.Workers * s.Grid.BlockBytes(); cap(t.held) < size {
		t.held = make([]byte, size)
	} else {
		t.held = t.held[:size]
	}
	for k := range n {
		t.at[k] = int32(stream*s.Columns + k)
		t.owners[k] = int32(s.Workers)
	}
	for i := range t.next {
		t.next[i] = t.at[i%n] // everybody's first block is to come
	}
}

// Awaits reports whether a packet of a worker is to come.
func (a *Aggregator) Awaits(worker int) bool { return a.awaited[worker] > 0 }

// Done reports whether every stream has ended, as far as this aggregator goes.
func (a *Aggregator) Done() bool { return a.left == 0 }

// Handle takes in what a worker sent. packet may be used again afterwards. An
// error names the worker and the stream and is an block.ErrProtocol or block.ErrMismatch,
// after which the Aggregator is of no further use. Packets of a tensor that has not
// begun here must be kept back.
func (a *Aggregator) Handle(packet []byte) (Answer, error) {
	h, err := Decode(packet)
	if err != nil {
		return Answer{}, err
	}
	s := &a.shape
	answer := Answer{Stream: h.Stream}
	switch {
	case !a.begun:
		return answer, a.refuse(&h, block.ErrProtocol, "no tensor has begun here")
	case h.Worker < 0 || h.Worker >= s.Workers:
		return answer, a.refuse(&h, block.ErrProtocol, fmt.Sprintf("there are %d workers", s.Workers))
	case h.Stream%s.Aggregators != a.index || h.Stream/s.Aggregators >= len(a.slots):
		return answer, a.refuse(&h, block.ErrProtocol, "the stream is not of this aggregator")
	}
	t := &a.slots[h.Stream/s.Aggregators]
	switch {
	case h.Tensor != a.tensor || h.Round != t.round || t.open == 0:
		return answer, a.refuse(&h, block.ErrProtocol,
			fmt.Sprintf("the aggregator is at tensor %d, round %d, with %d columns", a.tensor, t.round, t.open))
	case h.Digest != a.digest:
		return answer, a.refuse(&h, block.ErrMismatch, "")
	}
	list, err := a.reader.entries(s, &h, packet, t.at)
	if err == nil {
		err = a.take(t, &h, list)
	}
	if err != nil {
		return answer, a.refuse(&h, block.ErrProtocol, err.Error())
	}
	if t.wait == 0 {
		a.complete(t, h.Stream)
		answer.Packet = t.result
	}
	return answer, nil
}

// take stores what a worker sent of blocks that are being added up.
func (a *Aggregator) take(t *slot, h *Header, list []entry) error {
	n, size := len(t.at), a.shape.Grid.BlockBytes()
	mine := t.next[h.Worker*n : (h.Worker+1)*n]
	for _, e := range list {
		switch {
		case mine[e.column] != t.at[e.column]:
			return fmt.Errorf("column %d is at block %d, which the worker does not have", e.column, t.at[e.column])
		case e.data == nil && int(t.at[e.column]) >= a.shape.columns():
			return fmt.Errorf("block %d, for which the worker was asked, is missing", t.at[e.column])
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("it has nothing")
	}
	for _, e := range list {
		mine[e.column] = e.next
		if e.data != nil {
			i := h.Worker*n + e.column
			t.has[i] = true
			from, to := a.shape.Grid.Range(int(t.at[e.column]), 1)
			e.put(&a.shape, t.held[i*size:i*size+to-from])
		}
		t.owners[e.column]--
		if t.owners[e.column] == 0 {
			t.wait--
		}
	}
	a.awaited[h.Worker]--
	return nil
}

// complete makes the result of a round, and begins the next.
func (a *Aggregator) complete(t *slot, stream int) {
	s := &a.shape
	t.result = slices.Grow(t.result[:0], s.MaxPacket())[:s.MaxPacket()]
	p := newWriter(s, &a.lister, t.result, Header{Stream: stream, Tensor: a.tensor, Round: t.round,
		Worker: -1, Digest: a.digest})
	n, size := len(t.at), s.Grid.BlockBytes()
	t.data, t.zeros = t.data[:0], t.zeros[:0]
	for k, b := range t.at {
		if b == none {
			continue
		}
		a.sources = a.sources[:0]
		from, to := s.Grid.Range(int(b), 1)
		t.ends[k] = none
		for i := k; i < len(t.next); i += n { // in the order of the workers
			t.ends[k] = min(t.ends[k], t.next[i])
			if t.has[i] {
				t.has[i] = false
				a.sources = append(a.sources, t.held[i*size:i*size+to-from])
			}
		}
		if len(a.sources) == 0 {
			t.zeros = append(t.zeros, k)
			continue
		}
		t.data = append(t.data, k)
		sum := p.block(to - from)
		a.combiner.Combine(sum, a.sources, len(a.sources) == s.Workers)
		p.carry(sum)
	}
	for _, columns := range [][]int{t.data, t.zeros} {
		for _, k := range columns {
			p.entry(k, t.ends[k])
			t.at[k] = t.ends[k]
			if t.at[k] == none {
				t.open--
			}
		}
	}
	t.result = t.result[:p.finish()]
	a.next(t)
}

// next begins the round after the one that is complete.
func (a *Aggregator) next(t *slot) {
	t.round++
	clear(t.owners)
	n := len(t.at)
	for w := range a.awaited {
		has := false
		for k, next := range t.next[w*n : (w+1)*n] {
			if next == t.at[k] && next != none {
				t.owners[k]++
				has = true
			}
		}
		if has {
			a.awaited[w]++
		}
	}
	t.wait = t.open
	if t.open == 0 {
		a.left--
	}
}

// refuse returns the error of a packet.
func (a *Aggregator) refuse(h *Header, kind error, why string) error {
	return h.refused(fmt.Sprintf("aggregator %d, packet of worker %d", a.index, h.Worker), kind, why)
}
