package omni

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
)

// callLimit is what the aggregators of these tests take.
var callLimit = Limit{Workers: 4, Aggregators: 2, Streams: 128, Packet: 32 << 10}

func someCall() Call {
	return Call{Tensor: 7, Shape: Shape{
		Grid: block.Grid{Elements: 100_001, Size: 256, Width: 4}, DType: kernel.Float32, Op: kernel.Sum,
		Workers: 4, Aggregators: 2, Streams: 16, Columns: 8, Compact: true,
	}}
}

func TestCallComesBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom([]kernel.DType{kernel.Float32, kernel.Float64, kernel.BFloat16, kernel.Int64}).Draw(t, "type")
		c := Call{Tensor: rapid.Uint32().Draw(t, "tensor"), Shape: Shape{
			Grid:  block.Grid{Elements: rapid.IntRange(0, 1<<30).Draw(t, "elements"), Size: rapid.IntRange(1, 400).Draw(t, "block"), Width: dt.Size()},
			DType: dt, Op: rapid.SampledFrom([]kernel.Op{kernel.Sum, kernel.Min, kernel.Max}).Draw(t, "op"),
			Workers: 4, Aggregators: 2, Streams: rapid.IntRange(2, 128).Draw(t, "streams"), Columns: rapid.IntRange(1, 8).Draw(t, "columns"),
			Lossy: rapid.Bool().Draw(t, "lossy"), Compact: rapid.Bool().Draw(t, "compact"),
		}}
		back, err := DecodeCall(c.Encode(), callLimit)
		if err != nil || back != c {
			t.Fatalf("%+v became %+v, %v", c, back, err)
		}
	})
}

// Each change makes a call that an aggregator must not take; the error says why, and
// is one of the two kinds that callers know.
func TestCallThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		spoil func(s *Shape)
		kind  error
	}{
		"a call of 5 workers":      {func(s *Shape) { s.Workers = 5 }, ErrMismatch},
		"with 3 aggregators":       {func(s *Shape) { s.Aggregators = 3 }, ErrMismatch},
		"with 129 streams":         {func(s *Shape) { s.Streams = 129 }, ErrProtocol},
		"2 aggregators for 1":      {func(s *Shape) { s.Streams = 1 }, ErrProtocol},
		"want 1 to 4095":           {func(s *Shape) { s.Columns = 0 }, ErrProtocol},
		"packets of up to":         {func(s *Shape) { s.Columns = 100 }, ErrProtocol},
		"blocks of 40000 elements": {func(s *Shape) { s.Grid.Size = 40000 }, ErrProtocol},
		"want 1 to 16777216":       {func(s *Shape) { s.Grid.Size = 0 }, ErrProtocol},
		"want sum, min or max":     {func(s *Shape) { s.Op = kernel.Prod }, ErrProtocol},
		"type 200":                 {func(s *Shape) { s.DType = 200 }, ErrProtocol},
		"do not fit offsets":       {func(s *Shape) { s.Grid.Elements = 1 << 33 }, ErrProtocol},
	} {
		call := someCall()
		c.spoil(&call.Shape)
		if _, err := DecodeCall(call.Encode(), callLimit); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %v with %q", err, c.kind, want)
		}
	}
	call := someCall()
	good := call.Encode()
	for i, b := range [][]byte{nil, good[:CallBytes-1], append(good[:CallBytes:CallBytes], 0), append([]byte{9}, good[1:]...)} {
		if _, err := DecodeCall(b, callLimit); !errors.Is(err, ErrProtocol) {
			t.Errorf("bytes %d: %v", i, err)
		}
	}
}

// Whatever comes, what is taken is within the limit, and an aggregator can begin it.
func FuzzDecodeCall(f *testing.F) {
	c := someCall()
	f.Add(c.Encode())
	c.Shape.Lossy, c.Shape.Grid.Elements = true, 0
	f.Add(c.Encode())
	huge := c.Encode()
	binary.LittleEndian.PutUint64(huge[8:], 1<<63)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCall(b, callLimit)
		if err != nil {
			if !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrMismatch) {
				t.Fatal(err)
			}
			return
		}
		s := &c.Shape
		if s.Workers != 4 || s.Aggregators != 2 || s.Streams > 128 || s.MaxPacket() > callLimit.Packet || string(c.Encode()) != string(b) {
			t.Fatalf("%x was taken for %+v", b, c)
		}
		if err := NewAggregator(1).Begin(c.Tensor, c.Shape); err != nil {
			t.Fatal(err)
		}
	})
}
