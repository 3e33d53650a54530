package agree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/strict"
)

// gatherOf returns the AllGather of a rank whose peers send these blobs.
func gatherOf(blobs ...[]byte) func(ctx context.Context, mine []byte) ([][]byte, error) {
	return func(_ context.Context, mine []byte) ([][]byte, error) { return append([][]byte{mine}, blobs...), nil }
}

func TestExchange(t *testing.T) {
	ctx, why := context.Background(), errors.New("no memory")
	good, bad := strict.Marshal(&message[int]{Value: 7}), strict.Marshal(&message[int]{Failed: "no\nport \x1b[2J"})
	if all, err := Exchange(ctx, gatherOf(good, good), 3, nil, 7, nil); err != nil || !slices.Equal(all, []int{7, 7, 7}) {
		t.Errorf("%v, %v", all, err)
	}
	number := func(i int) int { return 10 * i }
	for _, c := range []struct {
		blobs  [][]byte
		failed error
		rank   int
		want   string
	}{
		{[][]byte{bad, good, bad}, nil, 10, "rank 10: no port ?[2J; rank 30: no port ?[2J"},
		{[][]byte{good, bad, bad}, why, 0, "rank 0: no memory; rank 20: no port ?[2J; rank 30: no port ?[2J"},
		{[][]byte{good, {9, 9}, nil}, nil, 20,
			"rank 20: its message cannot be read: 1 bytes are left over (hint: all ranks run"},
		{[][]byte{good, nil, good}, nil, 20, "rank 20: its message cannot be read: a length goes beyond"},
	} {
		_, err := Exchange(ctx, gatherOf(c.blobs...), 4, number, 7, c.failed)
		f := new(Failed)
		if !errors.As(err, &f) || f.Rank != c.rank || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(strings.TrimPrefix(c.want, fmt.Sprintf("rank %d: ", c.rank)), f.Why[:9]) ||
			errors.Is(err, why) != (c.failed != nil) {
			t.Errorf("error %+v of rank %d, want %q of rank %d", err, f.Rank, c.want, c.rank)
		}
	}
	if _, err := Exchange(ctx, gatherOf(slices.Repeat([][]byte{bad}, 1000)...), 1001, nil, 7, nil); err == nil ||
		!strings.HasSuffix(err.Error(), "; and 968 more") || len(err.Error()) > 3000 {
		t.Errorf("error %v", err)
	}
	for size, blobs := range map[int][][]byte{3: {good}, 1: {good, good}} {
		if _, err := Exchange(ctx, gatherOf(blobs...), size, nil, 7, why); !errors.Is(err, why) ||
			!strings.Contains(err.Error(), "blobs for") {
			t.Errorf("%d blobs for %d ranks: %v", len(blobs)+1, size, err)
		}
	}
	lost := errors.New("rank 3 was killed")
	_, err := Exchange(ctx, func(context.Context, []byte) ([][]byte, error) { return nil, lost }, 2, nil, 7, why)
	if !errors.Is(err, lost) || !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if Refusal(good) != "" || Refusal(bad) != "no port ?[2J" || Refusal(nil) == "" {
		t.Errorf("refusals %q, %q, %q", Refusal(good), Refusal(bad), Refusal(nil))
	}
}

// FuzzExchange: for any message of a rank, no rank panics, and the error text is printable.
func FuzzExchange(f *testing.F) {
	f.Add(strict.Marshal(&message[[]string]{Value: []string{"a"}}))
	f.Add(strict.Marshal(&message[[]string]{Failed: "why"}))
	f.Fuzz(func(t *testing.T, blob []byte) {
		all, err := Exchange(context.Background(), gatherOf(blob), 2, nil, []string{"b"}, nil)
		if err == nil && len(all) != 2 || err != nil && strings.ContainsAny(err.Error(), "\x00\x1b\n") {
			t.Errorf("%q: %q, %q", blob, all, err)
		}
	})
}
