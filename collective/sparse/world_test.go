package sparse

import (
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/testutil"
)

// world is a rank of a job whose ranks are goroutines of the test.
type world = testutil.Hosted

func worldOf(w *testutil.World) *world {
	w.Settings = map[string]string{"start-timeout": "30s"}
	return &world{World: w}
}

var oneHost = testutil.OneHost

// asRank runs body with a communicator of all ranks, which are on these hosts.
func asRank(t *testing.T, w collective.World, hosts []int, body func(c *collective.Comm) error) error {
	c, err := collective.New(t.Context(), w, collective.WithTopoCache(""), collective.WithGraph(testutil.GraphOn(hosts)))
	if err != nil {
		return err
	}
	err = body(c)
	if closed := c.Close(); err == nil {
		err = closed
	}
	return err
}

// runRanks runs body as every rank of a job and returns the errors, by rank.
func runRanks(t *testing.T, hosts []int, body func(w *world, c *collective.Comm) error) []error {
	t.Helper()
	return testutil.NewJob(hosts...).Run(t, func(member *testutil.World) error {
		w := worldOf(member)
		return asRank(t, w, hosts, func(c *collective.Comm) error { return body(w, c) })
	})
}

// mustRun is runRanks for ranks that must not fail.
func mustRun(t *testing.T, hosts []int, body func(w *world, c *collective.Comm) error) {
	t.Helper()
	for r, err := range runRanks(t, hosts, body) {
		if err != nil {
			t.Fatalf("rank %d of %v: %v", r, hosts, err)
		}
	}
}
