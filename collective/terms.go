package collective

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/treerun/treerun/collective/internal/setup"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// term is a thing that has to be the same on all ranks, such as the length of a slice.
type term struct{ Name, Value string }

// termsHead is the first message of agreeOn.
type termsHead struct {
	number int64
	digest [sha256.Size]byte // of the terms
}

// agreeOn compares the terms of all ranks, in a call of a kind, and returns the number that each has passed. The first
// term that differs is an ErrDisagree that names the ranks and their values. If ranks can have different numbers of
// terms, an earlier term differs, too.
func agreeOn(ctx context.Context, c *Comm, kind calls.Kind, number int, terms []term) ([]int, error) {
	mine := termsHead{int64(number), sha256.Sum256(fmt.Appendf(nil, "%q", terms))}
	all, numbers, same := make([]termsHead, c.inner().Size), []int(nil), true
	if err := gatherAs(ctx, c, kind, kernel.BytesOf([]termsHead{mine}), kernel.BytesOf(all)); err != nil {
		return nil, err
	}
	for _, head := range all {
		numbers, same = append(numbers, int(head.number)), same && head.digest == mine.digest
	}
	if same {
		return numbers, nil
	}
	lists, err := gatherObjects(ctx, c, kind, terms, -1)
	if err != nil {
		return nil, err
	}
	for i := 0; err == nil && i < len(lists[0]); i++ {
		err = setup.Agreed(c.in.Setup.World, lists[0][i].Name, lists, func(l []term) string { return l[i].Value })
	}
	return nil, fmt.Errorf("collective: %v on rank %d: %w", kind, c.Rank(), err)
}
