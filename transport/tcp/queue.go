package tcp

// ring is a queue that grows when it must, and keeps its memory.
type ring[T any] struct {
	list []T // its length is a power of two
	head int
	n    int
}

func (q *ring[T]) len() int { return q.n }

// at returns the i-th oldest; it stays where it is until push or pop.
func (q *ring[T]) at(i int) *T { return &q.list[(q.head+i)&(len(q.list)-1)] }

func (q *ring[T]) push(v T) {
	if q.n == len(q.list) {
		q.grow(max(16, 2*len(q.list)))
	}
	*q.at(q.n) = v
	q.n++
}

// grow makes room for n, a power of two.
func (q *ring[T]) grow(n int) {
	list := make([]T, n)
	for i := range q.n {
		list[i] = *q.at(i)
	}
	q.list, q.head = list, 0
}

// pop drops the oldest.
func (q *ring[T]) pop() {
	var zero T
	*q.at(0) = zero
	q.head = (q.head + 1) & (len(q.list) - 1)
	q.n--
}
