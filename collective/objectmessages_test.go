package collective

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// job is an object with pointers.
type work struct {
	Name  string
	Parts map[string][]int
}

// A farm: rank 0 sends objects, and receives answers of any length from any rank.
func TestRecvNewAndObjects(t *testing.T) {
	const size, rounds = 4, 20
	ctx := t.Context()
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() > 0 {
			for i := range rounds {
				w, st, err := RecvObject[work](ctx, c, 0, AnyTag)
				if err != nil || st.Tag != i || st.Source != 0 || w.Name != fmt.Sprint("job ", c.Rank(), i) {
					return fmt.Errorf("%+v, %+v, %w", w, st, err)
				}
				if err := Send(ctx, c, make([]particle, len(w.Parts["a"])), 0, 100+i); err != nil {
					return err
				}
			}
			return nil
		}
		for i := range rounds {
			for r := 1; r < size; r++ {
				w := work{fmt.Sprint("job ", r, i), map[string][]int{"a": make([]int, 1000*i+r)}}
				if err := SendObject(ctx, c, w, r, i); err != nil {
					return err
				}
			}
			var from []int
			for range size - 1 {
				answer, st, err := RecvNew[particle](ctx, c, AnySource, 100+i)
				if err != nil || len(answer) != 1000*i+st.Source || st.Count != len(answer) || st.Tag != 100+i {
					return fmt.Errorf("%d elements, %+v: %w", len(answer), st, err)
				}
				from = append(from, st.Source)
			}
			if slices.Sort(from); !slices.Equal(from, []int{1, 2, 3}) {
				return fmt.Errorf("answers from %v", from)
			}
		}
		return nil
	})
}

// Objects go out from a root; one that it cannot encode is an error on all ranks, and the communicator is unchanged.
func TestScatterObject(t *testing.T) {
	ctx := t.Context()
	for _, size := range []int{1, 2, 5} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			root := size - 1
			var values []work
			for r := range size {
				values = append(values, work{Name: fmt.Sprint(r), Parts: map[string][]int{"x": make([]int, 100*r)}})
			}
			want := values[c.Rank()]
			if c.Rank() != root {
				values = nil
			}
			got, err := ScatterObject(ctx, c, values, root)
			if err != nil || !reflect.DeepEqual(got, want) {
				return fmt.Errorf("%v, %w", got, err)
			}
			if _, err := ScatterObject(ctx, c, make([]int, size+1), root); !errors.Is(err, ErrArgument) ||
				c.Rank() == root && !strings.Contains(err.Error(), fmt.Sprintf("%d objects for %d ranks", size+1, size)) {
				return fmt.Errorf("too many objects: %w", err)
			} else if strings.Contains(err.Error(), "encode") {
				return fmt.Errorf("too many objects, and not the encoding: %w", err)
			}
			if _, err := AllReduceValueFunc[int](ctx, c, 1, nil); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("no function: %w", err)
			}
			if _, err := ScatterObject(ctx, c, make([]func(), size), root); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("functions: %w", err)
			}
			if err := SendObject(ctx, c, func() {}, 0, 0); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("a function: %w", err)
			}
			v, err := ReduceValue(ctx, c, c.Rank(), Max, root)
			if want := map[bool]int{true: size - 1, false: c.Rank()}[c.Rank() == root]; err != nil || v != want {
				return fmt.Errorf("ReduceValue: %d, %w, want %d", v, err, want)
			}
			var mark [8]byte
			mark[c.Rank()] = 'x'
			text, err := AllReduceValueFunc(ctx, c, mark, func(a, b [8]byte) [8]byte {
				for i := range b {
					a[i] |= b[i]
				}
				return a
			})
			if err != nil || strings.TrimRight(string(text[:]), "\x00") != strings.Repeat("x", size) {
				return fmt.Errorf("AllReduceValueFunc: %q, %w", text, err)
			}
			return nil
		})
	}
}

// A message of bytes is none of an object, nor one of another type.
func TestRecvNewOfAnotherType(t *testing.T) {
	for name, recv := range map[string]func(c *Comm) error{
		"RecvObject": func(c *Comm) error { _, _, err := RecvObject[int](t.Context(), c, 0, 3); return err },
		"RecvNew":    func(c *Comm) error { _, _, err := RecvNew[float32](t.Context(), c, 0, 3); return err },
	} {
		errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 0 {
				return errors.Join(Send(t.Context(), c, []byte("bytes"), 1, 3), c.Close())
			}
			return recv(c)
		})
		if !errors.Is(errs[1], ErrMismatch) || !strings.Contains(errs[1].Error(), "5 uint8 with tag 3") {
			t.Errorf("%s: %v", name, errs[1])
		}
	}
}

// At the edge of a grid messages to and from no rank do nothing.
func TestNoRank(t *testing.T) {
	ctx := t.Context()
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		left, right := c.Rank()-1, c.Rank()+1
		if left < 0 {
			left = NoRank
		}
		if right == c.Size() {
			right = NoRank
		}
		buf := []int{-1}
		st, err := SendRecv(ctx, c, []int{c.Rank()}, right, buf, left, 0)
		want, count := c.Rank()-1, 1
		if left == NoRank {
			want, count = -1, 0
		}
		if err != nil || buf[0] != want || st != (Status{left, 0, count}) {
			return fmt.Errorf("SendRecv: %+v, %v, %w", st, buf, err)
		}
		m, err := StartRecv(c, buf, NoRank, AnyTag)
		if err == nil {
			err = m.Wait(ctx)
		}
		s, sendErr := StartSend(c, buf, NoRank, 1)
		if sendErr == nil {
			sendErr = s.Wait(ctx)
		}
		k, recvErr := Recv(ctx, c, buf, NoRank, 1)
		_, st, newErr := RecvNew[int](ctx, c, NoRank, 1)
		v, _, objectErr := RecvObject[*int](ctx, c, NoRank, 1)
		newErr = errors.Join(newErr, objectErr, SendObject(ctx, c, 7, NoRank, 1))
		if err := errors.Join(err, sendErr, Send(ctx, c, buf, NoRank, 1), recvErr, newErr); err != nil || k != 0 ||
			st.Source != NoRank || v != nil {
			return fmt.Errorf("%d elements, %+v, %w", k, st, err)
		}
		probed, probeErr := Probe(ctx, c, NoRank, 3)
		tried, found, tryErr := TryProbe(c, NoRank, 3)
		matched, err := ProbeMatched(ctx, c, NoRank, 3)
		if err := errors.Join(probeErr, tryErr, err); err != nil || !found {
			return fmt.Errorf("Probes: %v, %w", found, err)
		}
		for _, st := range []Status{probed, tried, matched.Status} {
			if st != (Status{NoRank, 3, 0}) {
				return fmt.Errorf("a Probe found %+v", st)
			}
		}
		if n, err := RecvMatched(ctx, matched, buf); n != 0 || err != nil {
			return fmt.Errorf("RecvMatched: %d, %w", n, err)
		}
		for _, bad := range []*Matched{nil, {}} {
			if _, err := RecvMatched(ctx, bad, buf); !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "Matched") {
				return fmt.Errorf("RecvMatched of %v: %w", bad, err)
			}
		}
		return nil
	})
}
