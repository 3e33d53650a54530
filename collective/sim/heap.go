package sim

import (
	"math"
	"math/bits"
)

// event is something that happens to one thing at one time.
type event struct {
	at   uint64 // the bits of the time in microseconds; of times >= 0 they rise with it
	to   int32  // a track, FIFO, transfer or operation of a rank
	what eventKind
}

type eventKind uint8

const (
	launched  eventKind = iota // a rank may take the steps of an operation
	sent                       // a track begins to move its chunk over the link
	stepped                    // a track has taken its step
	passing                    // a transfer comes to the next resource of its route
	delivered                  // a chunk is in its FIFO
	turned                     // a core has come round to a rank
	credited                   // a FIFO has one more slot
)

// queue holds events, and hands them out by time, those of one time in the
// order in which they came. No event may be earlier than the last one that was
// taken out.
//
// It is a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan 1990): list k has the
// events whose time differs from the time of the last one taken in bit k-1 and
// in none above, so list 0 has those of the same time. When that is empty, the
// lowest list with anything in it becomes the lists below. Each step of an
// event leads down, over memory in order; a binary heap, which compares far
// apart, takes twice the time of a whole simulation. Events of one time are
// always in one list, and in their order.
type queue struct {
	lists [65][]event
	last  uint64 // the time of list 0
	taken int    // of list 0
	size  int
}

// push adds an event.
func (q *queue) push(at float64, what eventKind, to int32) {
	e := event{math.Float64bits(at), to, what}
	q.size++
	q.put(e)
}

func (q *queue) put(e event) {
	k := bits.Len64(e.at ^ q.last)
	q.lists[k] = append(q.lists[k], e)
}

// pop takes the first event out. The queue must not be empty.
func (q *queue) pop() (at float64, e event) {
	if q.taken == len(q.lists[0]) {
		q.refill()
	}
	e = q.lists[0][q.taken]
	q.taken++
	q.size--
	return math.Float64frombits(e.at), e
}

// refill fills list 0, which is empty, with the events of the next time.
func (q *queue) refill() {
	q.lists[0], q.taken = q.lists[0][:0], 0
	k := 1
	for len(q.lists[k]) == 0 {
		k++
	}
	list := q.lists[k]
	q.last = list[0].at
	for _, e := range list[1:] {
		q.last = min(q.last, e.at)
	}
	for _, e := range list {
		q.put(e) // into a list below k
	}
	q.lists[k] = list[:0]
}
