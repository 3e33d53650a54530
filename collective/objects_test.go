package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// config is an example of an object that programs send.
type config struct {
	Name   string
	Rates  []float64
	Layers map[string]int
}

func TestObjects(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		mustRun(t, n, func(_ *fakeWorld, c *Comm) error {
			mine := config{strings.Repeat("x", 10*c.Rank()), make([]float64, c.Rank()), map[string]int{"conv": c.Rank()}}
			all, err := AllGatherObject(t.Context(), c, mine)
			if err != nil {
				return err
			}
			root := n - 1
			gathered, err := GatherObject(t.Context(), c, mine, root)
			if err != nil {
				return err
			}
			if (gathered != nil) != (c.Rank() == root) {
				return fmt.Errorf("rank %d has %v", c.Rank(), gathered)
			}
			for r, v := range append(all, gathered...) {
				if r %= n; len(v.Name) != 10*r || len(v.Rates) != r || v.Layers["conv"] != r {
					return fmt.Errorf("object %d is %+v", r, v)
				}
			}
			got, err := BroadcastObject(t.Context(), c, mine, root)
			if err == nil && got.Layers["conv"] != root {
				err = fmt.Errorf("broadcast %+v", got)
			}
			return err
		})
	}
}

// An object that cannot be sent is the same error on all ranks, which continue.
func TestObjectsThatCannotTravel(t *testing.T) {
	const bad = 1
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		var mine any = "fine"
		if c.Rank() == bad {
			mine = make(chan int)
		}
		for i, call := range []func() error{
			func() error { _, err := AllGatherObject(t.Context(), c, mine); return err },
			func() error { _, err := GatherObject(t.Context(), c, mine, 0); return err },
			func() error { _, err := BroadcastObject(t.Context(), c, mine, bad); return err },
		} {
			err := call()
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "rank 1 cannot encode") {
				return fmt.Errorf("call %d: %v", i, err)
			}
		}
		return Barrier(t.Context(), c)
	})
}

// A rank that receives an object as another type gets an error of its own; the other ranks and the next call are not
// affected.
func TestObjectOfAnotherType(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		var err error
		if c.Rank() == 0 {
			_, err = BroadcastObject(t.Context(), c, "text", 0)
		} else if _, err = BroadcastObject(t.Context(), c, 7, 0); err != nil {
			if !strings.Contains(err.Error(), "decoding the object of rank 0") {
				return err
			}
			err = nil
		} else {
			err = errors.New("text is a number")
		}
		return errors.Join(err, Barrier(t.Context(), c))
	})
}

// brittle is a type whose encoding panics.
type brittle struct{}

func (brittle) MarshalBinary() ([]byte, error) { panic("not today") }

// A codec that panics is an error that names the type: in an encoder on all ranks, in a decoder on its own rank.
func TestObjectsWhoseCodecPanics(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		mine := errors.New("hi") // is sent as its type, and cannot be decoded into an error
		_, every := AllGatherObject(t.Context(), c, mine)
		_, gathered := GatherObject(t.Context(), c, mine, 1)
		_, broadcast := BroadcastObject(t.Context(), c, mine, 2)
		for i, err := range []error{every, gathered, broadcast} {
			at := i == 0 || i == 1 && c.Rank() == 1 || i == 2 && c.Rank() != 2 // where it is decoded
			if at != (err != nil) || at && !strings.Contains(err.Error(), " for a *error: panic: reflect.Set") {
				return errors.Join(err, fmt.Errorf("rank %d, call %d: decodes %v", c.Rank(), i, at))
			}
		}
		_, every = AllGatherObject(t.Context(), c, brittle{})
		_, gathered = GatherObject(t.Context(), c, brittle{}, 1)
		_, broadcast = BroadcastObject(t.Context(), c, brittle{}, 2)
		for i, err := range []error{every, gathered, broadcast} {
			near := i < 2 || c.Rank() == 2 // whether this rank knows why
			if !errors.Is(err, ErrArgument) || near && !strings.Contains(err.Error(), "a collective.brittle: panic: not today") {
				return errors.Join(err, fmt.Errorf("rank %d, call %d encodes", c.Rank(), i))
			}
		}
		return Barrier(t.Context(), c)
	})
}

// weight is an element type defined by a program.
type weight float32

func TestValuesAndNamedTypes(t *testing.T) {
	mustRun(t, 4, func(_ *fakeWorld, c *Comm) error {
		sum, err := AllReduceValue(t.Context(), c, weight(c.Rank())+0.5, Sum)
		if err != nil || sum != 8 {
			return fmt.Errorf("sum %v, %w", sum, err)
		}
		count, err := AllReduceValue(t.Context(), c, c.Rank(), Max)
		if err != nil || count != 3 {
			return fmt.Errorf("max %v, %w", count, err)
		}
		// int and int64 are the same type on the wire.
		if c.Rank()%2 == 0 {
			_, err = AllReduceValue(t.Context(), c, int64(-1), Min)
		} else {
			_, err = AllReduceValue(t.Context(), c, -1, Min)
		}
		return err
	})
}

func TestBits(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		x := make([]uint32, 1000)
		for i, op := range []Op{And, Or, Xor} {
			want := []uint32{0b1000, 0b1111, 0b1111}[i]
			for i := range x {
				x[i] = 0b1000 | 1<<c.Rank()
			}
			if err := AllReduce(t.Context(), c, x, x, op); err != nil || x[999] != want {
				return fmt.Errorf("%v is %b, %w", op, x[999], err)
			}
		}
		f := []float64{1}
		if err := AllReduce(t.Context(), c, f, f, Xor); !errors.Is(err, ErrArgument) ||
			!strings.Contains(err.Error(), "operation xor is for integers and bools, not for float64") {
			return fmt.Errorf("xor of float64: %v", err)
		}
		return nil
	})
}

// FuzzDecode: any bytes in place of an object are an error, or an object that can be sent again unchanged.
func FuzzDecode(f *testing.F) {
	for _, v := range []any{config{"a", []float64{1, 2}, map[string]int{"x": -1}}, "text", 7, nil} {
		data, _, err := encoded(v, 1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\xdd\xff\xff\xff\xff")) // a list of 4 billion elements, in five bytes
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, again config
		if err := decode("Fuzz", 0, 1, data, &v); err != nil {
			if !strings.Contains(err.Error(), "object of rank 1") {
				t.Error(err)
			}
			return
		}
		data, _, err := encoded(v, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := decode("Fuzz", 0, 1, data, &again); err != nil || fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", again) {
			t.Errorf("%+v became %+v, %v", v, again, err)
		}
	})
}

// TestLargeObjects: the objects of a ScatterObject have their limit together, and one of a gather has its share of it.
// What is larger is an ErrArgument on all ranks that names the limit.
func TestLargeObjects(t *testing.T) {
	defer func(most int) { maxObjects = most }(maxObjects)
	maxObjects = 3000
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		scatter := func(lengths ...int) error {
			var objects [][]byte
			for _, n := range lengths {
				objects = append(objects, make([]byte, n))
			}
			got, err := ScatterObject(t.Context(), c, objects, 1)
			if err == nil && len(got) != lengths[c.Rank()] {
				err = fmt.Errorf("%d bytes came, want %d", len(got), lengths[c.Rank()])
			}
			return err
		}
		gather := func(n int) error { _, err := AllGatherObject(t.Context(), c, make([]byte, n)); return err }
		if err := errors.Join(scatter(2900, 10, 10), scatter(10, 1400, 1400), gather(990)); err != nil {
			return err
		}
		for want, err := range map[string]error{
			"objects 0 to 2 have 3009 bytes, and all may have 3000 together": scatter(1000, 1000, 1000),
			"3003 bytes, and each object of the call may have 3000":          scatter(3000, 1, 1),
			"1003 bytes, and each object of the call may have 1000":          gather(1000),
		} {
			knows := c.Rank() == 1 || strings.HasPrefix(want, "1003") // the root, or a rank that gathers
			if !errors.Is(err, ErrArgument) || knows && !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%w, want %q", err, want)
			}
		}
		return nil
	})
}
