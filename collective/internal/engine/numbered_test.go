package engine

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// A header has the root and the number that were given, for every number up to the last one that it distinguishes.
func TestNumbered(t *testing.T) {
	for _, root := range []int{-1, 0, 1, 1<<15 - 1, 1 << 15, 1<<16 - 1} {
		kind := plan.Broadcast
		if root < 0 {
			kind = plan.AllReduce
		}
		for n := range 1<<15 + 2 {
			h := call.Header{Kind: uint8(kind), Root: Numbered(root, n)}
			plain, number := numberOf(h)
			if int(plain.Root) != root || number != n%(1<<15) || root >= 0 && uint16(h.Root) != uint16(root) {
				t.Fatalf("root %d, number %d: root %d, number %d of %x", root, n, plain.Root, number, h.Root)
			}
		}
	}
	if h := (call.Header{Kind: messageKind, Root: 5 << 16}); Describe(h) == "" {
		t.Fail()
	} else if plain, n := numberOf(h); plain != h || n != 0 {
		t.Errorf("a message with a large tag has number %d", n)
	}
}
