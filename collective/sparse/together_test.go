package sparse

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/testutil"
)

// Two communicators begin with sparse calls at the same time, and open links for them: their messages do not mix,
// whatever the order in which ranks call.
func TestTwoCommunicatorsAtOnce(t *testing.T) {
	for _, hosts := range [][]int{oneHost(4), {0, 0, 1, 1}} {
		for _, form := range formsOn(hosts, Trees, Aggregators) {
			t.Run(fmt.Sprint(hosts, form), func(t *testing.T) {
				mustRun(t, hosts, func(w *world, c *collective.Comm) error {
					second, err := collective.New(t.Context(), w, collective.WithTopoCache(""),
						collective.WithGraph(testutil.GraphOn(hosts)))
					if err != nil {
						return err
					}
					all := []*collective.Comm{c, second}
					errs := make([]error, len(all))
					var calls sync.WaitGroup
					for i := range all {
						i = (i + c.Rank()) % len(all)
						calls.Go(func() {
							for k := range 3 {
								errs[i] = errors.Join(errs[i], typed(t, i+k, all[i], patterns[8], form, collective.Sum, 3000+i*500, 64, true))
							}
						})
					}
					calls.Wait()
					return errors.Join(append(errs, second.Close())...)
				})
			})
		}
	}
}
