package setup

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo/probe"
)

func TestRankList(t *testing.T) {
	for want, ranks := range map[string][]int{
		"rank 3":         {3},
		"ranks 0-2,5":    {0, 1, 2, 5},
		"ranks 1,3,5,6":  {1, 3, 5, 6},
		"ranks 0,1":      {0, 1},
		"ranks 7,9,11":   {7, 9, 11},
		"ranks 2-4,8-10": {2, 3, 4, 8, 9, 10},
	} {
		if got := rankList(ranks); got != want {
			t.Errorf("%v: %q, want %q", ranks, got, want)
		}
	}
}

// FuzzMessages: no message makes a rank allocate much, or panic, and a message that was read can be written.
func FuzzMessages(f *testing.F) {
	for _, v := range []any{
		hello{Protocol: protocol, Settings: []string{"8 of 4096 bytes"}, Cores: 2,
			Host: cachedHost{Found: &probe.Findings{Places: make([]probe.Place, 2)}}},
		planner.Decision{},
		measured{Pairs: []probe.Pair{{A: 0, B: 1, LatencyUs: 0.2, GBytesPerSecond: 10}}, Spent: time.Second},
	} {
		b, err := msgpack.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})                                  // an array of 2^32-1 values
	f.Add([]byte{0xc6, 0xff, 0xff, 0xff, 0xff})                                  // as many bytes
	f.Add(append([]byte{0x81, 0xa1, 'X'}, bytes.Repeat([]byte{0x91}, 1<<16)...)) // deep
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		var o planner.Decision
		var m measured
		for _, v := range []any{&h, &o, &m} {
			if err := strict.Unmarshal(b, v); err != nil {
				continue
			}
			if _, err := msgpack.Marshal(v); err != nil {
				t.Errorf("%+v was read and cannot be written: %v", v, err)
			}
		}
		if len(m.Pairs) > len(b) {
			t.Errorf("%d links out of %d bytes", len(m.Pairs), len(b))
		}
	})
}

func TestMeasuredRoundTrip(t *testing.T) {
	want := measured{Spent: 1500 * time.Millisecond, Pairs: []probe.Pair{{A: 0, B: 1, LatencyUs: 0.2, GBytesPerSecond: 10},
		{A: 0, B: 2, LatencyUs: 3, GBytesPerSecond: 1}}}
	b, err := msgpack.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got measured
	if err := strict.Unmarshal(b, &got); err != nil || got.Spent != want.Spent || !slices.Equal(got.Pairs, want.Pairs) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
