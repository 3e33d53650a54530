package agent

import (
	"io"
	"os"
	"sync"

	"github.com/treerun/treerun/cmd/treerun/internal/pipe"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// forwarder sends what the ranks print to the launcher, as fast as that is shown
// there. Its methods may be called concurrently.
type forwarder struct {
	report func(wire.Body)
	all    sync.WaitGroup

	mu    sync.Mutex
	room  *sync.Cond
	sent  map[[2]int]int // bytes under way, by rank and stream
	ended bool           // nobody listens any more
}

func newForwarder(report func(wire.Body)) *forwarder {
	f := &forwarder{report: report, sent: make(map[[2]int]int)}
	f.room = sync.NewCond(&f.mu)
	return f
}

// add takes over a stream.
func (f *forwarder) add(rank, stream int, src *pipe.Reader) {
	f.all.Go(func() {
		defer src.Close() // only read from
		key := [2]int{rank, stream}
		for f.waitForRoom(key) {
			buf := make([]byte, wire.Chunk)
			n, err := src.Read(buf)
			if n > 0 {
				f.mu.Lock()
				f.sent[key] += n
				f.mu.Unlock()
				f.report(&wire.Output{Rank: rank, Stream: stream, Data: buf[:n]})
			}
			if err != nil { // io.EOF; any other error ends a stream as well
				break
			}
		}
		f.report(&wire.Output{Rank: rank, Stream: stream})
	})
}

func (f *forwarder) waitForRoom(key [2]int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.sent[key] > wire.Window-wire.Chunk && !f.ended {
		f.room.Wait()
	}
	return !f.ended
}

// taken notes that the launcher has shown something.
func (f *forwarder) taken(t *wire.Taken) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent[[2]int{t.Rank, t.Stream}] -= t.Bytes
	f.room.Broadcast()
}

// abandon ends all streams: nobody listens.
func (f *forwarder) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.room.Broadcast()
}

// wait returns when all streams have ended.
func (f *forwarder) wait() { f.all.Wait() }

// input carries the launcher's stdin to rank 0.
type input struct {
	mu    sync.Mutex
	queue [][]byte
	wake  chan struct{}
}

// newInput returns an input and the end that rank 0 reads.
func newInput(report func(wire.Body)) (*input, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	i := &input{wake: make(chan struct{}, 1)}
	go i.copy(w, report)
	return i, r, nil
}

// add queues data for rank 0; none is the end.
func (i *input) add(data []byte) {
	i.mu.Lock()
	i.queue = append(i.queue, data)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// copy writes to rank 0 until the end. What a rank that has ended does not read
// is dropped.
func (i *input) copy(w io.WriteCloser, report func(wire.Body)) {
	defer w.Close() // the reader has everything that was written
	failed := false
	for {
		i.mu.Lock()
		queue := i.queue
		i.queue = nil
		i.mu.Unlock()
		for _, data := range queue {
			if len(data) == 0 {
				return
			}
			if !failed {
				_, err := w.Write(data)
				failed = err != nil
			}
			report(&wire.Consumed{Bytes: len(data)})
		}
		if len(queue) == 0 {
			<-i.wake
		}
	}
}
