package collective

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// particle has padding, an array and a field without a name of its own.
type particle struct {
	ID    int32
	At    [3]float64
	Alive bool
	inner
}

type inner struct{ Charge int8 }

// float16Bits is a 16-bit float of another library.
type float16Bits uint16

// mover makes calls on elements of T, each a function of a number, and compares the results.
type mover[T comparable] struct {
	c    *Comm
	of   func(i int) T
	errs []error
}

// part is n elements of rank r.
func (m *mover[T]) part(r, n int) []T {
	p := make([]T, n)
	for i := range p {
		p[i] = m.of(100*r + i)
	}
	return p
}

// parts is f of all ranks.
func (m *mover[T]) parts(f func(r int) []T) (all []T) {
	for r := range m.c.Size() {
		all = append(all, f(r)...)
	}
	return all
}

// at returns all on rank root, and as many zeros on others.
func (m *mover[T]) at(root int, all []T) []T {
	if m.c.Rank() != root {
		return make([]T, len(all))
	}
	return all
}

func (m *mover[T]) check(name string, call func(got []T) error, want []T) {
	got := make([]T, len(want))
	err := call(got)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%v, want %v", got, want)
	}
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("%s of %v on rank %d: %w", name, reflect.TypeFor[T](), m.c.Rank(), err))
	}
}

// moved makes every call that moves data.
func moved[T comparable](ctx context.Context, c *Comm, of func(i int) T) error {
	m := &mover[T]{c: c, of: of}
	m.equal(ctx)
	m.uneven(ctx)
	m.messages(ctx)
	return errors.Join(m.errs...)
}

// elements of a part.
const elements = 3

func (m *mover[T]) equal(ctx context.Context) {
	c, root := m.c, m.c.Size()-1
	mine := m.part(c.Rank(), elements)
	all := m.parts(func(r int) []T { return m.part(r, elements) })
	m.check("Broadcast", func(got []T) error { return Broadcast(ctx, c, mine, got, root) }, m.part(root, elements))
	m.check("BroadcastCoalesced", func(got []T) error {
		return BroadcastCoalesced(ctx, c, [][]T{mine[:1], mine[1:]}, [][]T{got[:1], got[1:]}, root)
	}, m.part(root, elements))
	m.check("AllGather", func(got []T) error { return AllGather(ctx, c, mine, got) }, all)
	m.check("Gather", func(got []T) error { return Gather(ctx, c, mine, got, root) }, m.at(root, all))
	m.check("Scatter", func(got []T) error { return Scatter(ctx, c, m.at(root, all), got, root) }, mine)
	m.check("AllToAll", func(got []T) error { return AllToAll(ctx, c, all, got) },
		m.parts(func(int) []T { return mine }))
	m.check("StartAllGather", func(got []T) error {
		r, err := StartAllGather(c, mine, got)
		if err == nil {
			err = r.Wait(ctx)
		}
		return err
	}, all)
	m.check("AllGatherInit", func(got []T) error {
		p, err := AllGatherInit(c, mine, got)
		if err == nil {
			err = p.Run(ctx)
		}
		return err
	}, all)
}

func (m *mover[T]) uneven(ctx context.Context) {
	c, rank, root := m.c, m.c.Rank(), m.c.Size()-1
	var counts, sends, receives []int // in AllToAllV every rank gets as many elements from each as its number
	for r := range c.Size() {
		counts, sends, receives = append(counts, r+1), append(sends, r), append(receives, rank)
	}
	mine := m.part(rank, rank+1)
	all := m.parts(func(r int) []T { return m.part(r, counts[r]) })
	m.check("AllGatherV", func(got []T) error { return AllGatherV(ctx, c, mine, got, counts) }, all)
	m.check("GatherV", func(got []T) error { return GatherV(ctx, c, mine, got, counts, root) }, m.at(root, all))
	m.check("ScatterV", func(got []T) error { return ScatterV(ctx, c, m.at(root, all), got, counts, root) }, mine)
	out := m.parts(func(r int) []T { return m.part(rank, r) })
	m.check("AllToAllV", func(got []T) error { return AllToAllV(ctx, c, out, sends, got, receives) },
		m.parts(func(r int) []T { return m.part(r, rank) }))
}

func (m *mover[T]) messages(ctx context.Context) {
	c, mine := m.c, m.part(m.c.Rank(), elements)
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	m.check("SendRecv", func(got []T) error {
		st, err := SendRecv(ctx, c, mine, next, got, before, 7)
		if want := (Status{before, 7, elements}); err == nil && st != want {
			err = fmt.Errorf("%+v, want %+v", st, want)
		}
		return err
	}, m.part(before, elements))
	m.check("Send and Recv of fewer", func(got []T) error {
		s, err := StartSend(c, mine[:elements-1], next, 8)
		if err != nil {
			return err
		}
		n, err := Recv(ctx, c, got, before, 8)
		if err == nil && n != elements-1 {
			err = fmt.Errorf("%d elements, want %d", n, elements-1)
		}
		return errors.Join(err, s.Wait(ctx))
	}, append(m.part(before, elements-1), *new(T)))
}

// Calls that move data take elements of any type without pointers.
func TestAnyType(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			ctx := t.Context()
			return errors.Join(
				moved(ctx, c, func(i int) particle {
					return particle{ID: int32(i), At: [3]float64{1, float64(i), 3}, Alive: i%2 == 0, inner: inner{int8(i)}}
				}),
				moved(ctx, c, func(i int) complex128 { return complex(float64(i), -1) }),
				moved(ctx, c, func(i int) complex64 { return complex(float32(i), -1) }),
				moved(ctx, c, func(i int) bool { return i%2 == 0 }),
				moved(ctx, c, func(i int) float16Bits { return float16Bits(i) }),
				moved(ctx, c, func(i int) [3]uint8 { return [3]uint8{uint8(i), 7, 9} }),
				moved(ctx, c, func(i int) [5000]int16 { return [5000]int16{int16(i), 4999: int16(-i)} }),
				moved(ctx, c, func(i int) int16 { return int16(i) }),
				moved(ctx, c, func(i int) Float16 { return Float16(i) }),
			)
		})
	}
}

// A type with pointers is refused with the name of the field; one of another rank is a mismatch.
func TestTypesThatCannotMove(t *testing.T) {
	type node struct {
		Value int
		Links [2]struct{ Next *int }
	}
	type text struct{ Name string }
	ctx := t.Context()
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		var err error
		_, recvErr := Recv(ctx, c, []text{{}}, 1-c.Rank(), 0)
		add := func(into, from []node) {}
		type rows struct{ Rows [2]node }
		for want, got := range map[string]error{
			"elements of type collective.node have no meaning in another process: Links[0].Next is of type *int (": AllGather(
				ctx, c, []node{{}}, make([]node, 2)),
			"AllReduceFunc on rank ": AllReduceFunc(ctx, c, []node{{}}, []node{{}}, add),
			"another process: Rows[0].Links[0].Next is of type *int (hint: ": Broadcast(ctx, c, []rows{{}}, []rows{{}}, 0),
			"the function is nil":                     ScanFunc(ctx, c, []int{1}, []int{1}, nil),
			"AllToAllV on rank ":                      AllToAllV(ctx, c, []text{{}}, []int{0, 1}, []text{{}}, []int{0, 1}),
			"Name is of type string":                  GatherV(ctx, c, []text{{}}, []text{{}, {}}, []int{1, 1}, 0),
			"map[int]int have no meaning in another ": AllGather(ctx, c, []map[int]int{nil}, make([]map[int]int, 2)),
			"struct {} have no size":                  Send(ctx, c, []struct{}{{}}, 1-c.Rank(), 0),
			"Recv on rank ":                           recvErr,
			"[0] is of type func() (":                 Scatter(ctx, c, make([][2]func(), 2), make([][2]func(), 1), 0),
		} {
			if got == nil || !errors.Is(got, ErrArgument) || !strings.Contains(got.Error(), want) {
				err = errors.Join(err, fmt.Errorf("%v, want %q", got, want))
			}
		}
		return err
	})
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			return Broadcast(ctx, c, [][2]int32{{1}}, make([][2]int32, 1), 0)
		}
		return Broadcast(ctx, c, []particle{{}}, []particle{{}}, 0)
	})
	for _, err := range errs {
		text := fmt.Sprint(err)
		if !errors.Is(err, ErrMismatch) || !strings.Contains(text, "(8 bytes of [2]int32, digest ") ||
			!strings.Contains(text, " bytes of collective.particle, digest ") {
			t.Errorf("another type: %v", err)
		}
	}
}

// TestCountsOfStructs: errors count the elements that the program has, not their bytes, and no part has half of one.
func TestCountsOfStructs(t *testing.T) {
	type cell struct{ A, B, C int64 }
	ctx := t.Context()
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		var errs []error
		cells, two := make([]cell, 10), []int{2, 2}
		for _, tc := range []struct {
			err  error
			want string
		}{
			{AllGather(ctx, c, cells[:2], cells[5:]), "recv has 5 elements, want 2 parts of 2"},
			{AllToAll(ctx, c, cells[:5], cells[5:]), "recv has 5 elements, want 2 parts of 2"},
			{Broadcast(ctx, c, cells[:2], cells[5:8], c.Rank()), "send has 2 elements, recv 3"},
			{AllGatherV(ctx, c, cells[:1], cells[5:9], two), "send has 1 elements, counts have 2 for this rank"},
			{AllGatherV(ctx, c, cells[:2], cells[5:8], two), "recv has 3 elements, counts have 4 for all ranks"},
			{AllGatherV(ctx, c, cells[:2], cells[5:], []int{-1, 2}), "counts have -1 elements for rank 0"},
			{AllGatherV(ctx, c, cells[:2], cells[5:], []int{1, 1 << 60}), fmt.Sprintf("have %d elements for rank 1", 1<<60)},
			{ScatterV(ctx, c, cells[:3], cells[5:7], two, c.Rank()), "send has 3 elements, counts have 4 for all ranks"},
			{AllToAllV(ctx, c, cells[:3], two, cells[5:9], two),
				"send has 3 elements and recv 4, sendCounts have 4 and recvCounts 4"},
			{AllToAllV(ctx, c, cells[:4], two, cells[5:7], []int{1, 1}), "this rank sends 2 elements to itself and receives 1"},
			{AllToAllV(ctx, c, cells[:2], []int{-3, 2}, cells[5:], two), "sendCounts have -3 elements for rank 0"},
		} {
			if !errors.Is(tc.err, ErrArgument) || !strings.Contains(tc.err.Error(), tc.want) {
				errs = append(errs, fmt.Errorf("%w, want %q", tc.err, tc.want))
			}
		}
		return errors.Join(errs...)
	})
	err := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		from0 := 1 + c.Rank()
		return AllToAllV(ctx, c, make([]cell, 2), []int{1, 1}, make([]cell, from0+1), []int{from0, 1})
	})[1]
	want := "rank 0 sends 24 bytes to rank 1, which receives 48 from it, in AllToAllV #1 (bytes of collective.cell, "
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	for _, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		return errors.Join(GatherV(ctx, c, make([]cell, 1), make([]cell, 3), []int{1, 2}, 0), Barrier(ctx, c))
	}) {
		want = "rank 1 has a part of 24 bytes in GatherV #1 (bytes of collective.cell, "
		if text := fmt.Sprint(err); !errors.Is(err, ErrMismatch) || !strings.Contains(text, want) ||
			!strings.Contains(text, "the counts of rank 0 have 48 for it") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
