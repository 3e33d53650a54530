package sim

// event is something that happens to one thing at one time.
type event struct {
	at   float64 // microseconds
	id   uint64  // rising as events are made
	what happening
	to   int32 // a track, FIFO, transfer or operation of a rank
}

type happening uint8

const (
	launched  happening = iota // a rank may take the steps of an operation
	sent                       // a track begins to move its chunk over the link
	stepped                    // a track has taken its step
	passing                    // a transfer comes to the next resource of its route
	delivered                  // a chunk is in its FIFO
	credited                   // a FIFO has one more slot
)

// queue holds events, a binary heap by time and id.
type queue struct {
	heap []event
	made uint64
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.id < f.id }

// push adds an event.
func (q *queue) push(at float64, what happening, to int32) {
	q.made++
	q.heap = append(q.heap, event{at, q.made, what, to})
	h := q.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop takes the first event out. The queue must not be empty.
func (q *queue) pop() event {
	h := q.heap
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	q.heap = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
