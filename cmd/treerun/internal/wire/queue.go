package wire

import "sync"

// Queue hands what is added to a function, in order and all that there is at a time, in a
// goroutine that lives while there is any. Whoever adds does not wait. Its methods may be
// called concurrently; the zero value keeps what is added until Begin.
type Queue[T any] struct {
	mu      sync.Mutex
	do      func([]T)
	waiting []T
	busy    bool // the goroutine lives
}

// Begin hands first, then what was added before, and what will be, to do. Call it once.
func (q *Queue[T]) Begin(do func([]T), first ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.do, q.waiting = do, append(first, q.waiting...)
	q.work()
}

// Add adds a value.
func (q *Queue[T]) Add(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, v)
	q.work()
}

// work starts the goroutine if there is work for it. The caller holds mu.
func (q *Queue[T]) work() {
	if q.do == nil || q.busy || len(q.waiting) == 0 {
		return
	}
	q.busy = true
	go func() {
		for batch := q.next(); len(batch) > 0; batch = q.next() {
			q.do(batch)
		}
	}()
}

// next returns what waits; none ends the goroutine.
func (q *Queue[T]) next() (batch []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, q.waiting = q.waiting, nil
	q.busy = len(batch) > 0
	return batch
}
