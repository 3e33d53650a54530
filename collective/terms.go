package collective

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/setup"
	calls "github.com/treerun/treerun/internal/call"
)

// term is a thing that has to be the same on all ranks, such as the length of a slice.
type term struct{ Name, Value string }

// termsHead is the first message of agreeOn: the number, and a digest of the terms.
const termsHead = 8 + sha256.Size

// agreeOn compares the terms of all ranks, in a call of a kind, and returns the number that each has passed. The first
// term that differs is an ErrDisagree that names the ranks and their values. If ranks can have different numbers of
// terms, an earlier term differs, too.
func agreeOn(ctx context.Context, c *Comm, kind calls.Kind, number int, terms []term) ([]int, error) {
	mine, all := make([]byte, termsHead), make([]byte, termsHead*c.inner().Size)
	binary.LittleEndian.PutUint64(mine, uint64(number))
	digest := sha256.Sum256(fmt.Appendf(nil, "%q", terms))
	copy(mine[8:], digest[:])
	if err := gatherAs(ctx, c, kind, mine, all); err != nil {
		return nil, err
	}
	var numbers []int
	same := true
	for head := range slices.Chunk(all, termsHead) {
		numbers = append(numbers, int(int64(binary.LittleEndian.Uint64(head))))
		same = same && [sha256.Size]byte(head[8:]) == digest
	}
	if same {
		return numbers, nil
	}
	lists, err := gatherObjects(ctx, c, kind, terms, -1)
	for i := 0; err == nil && i < len(lists[0]); i++ {
		err = setup.Agreed(c.in.Setup.World, lists[0][i].Name, lists, func(l []term) string { return l[i].Value })
	}
	return nil, err
}
