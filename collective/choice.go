package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
)

// Choice is the plan of a call; see Comm.Choice.
type Choice struct {
	Algorithm   string  // as in plan files: "direct", "hierarchical:star/packing"
	Name        string  // the algorithm and its variant, as WithAlgorithm takes it: "direct:split"
	Plan        string  // the plan's name
	Digest      string  // digest of the plan, as `treerun plan` prints it
	PredictedUs float64 // NaN where it cannot be predicted
	By          string  // reason for the choice: the price, or the name of the rule
}

// Choice returns the plan for a call of this kind and root with a message of the given number of bytes. If every rank
// has a part, the message consists of all parts; if the kind has no root, root is ignored. Choice computes the same
// result on every rank, without messages. It must not run concurrently with a call of the communicator. After Close of
// one that Split, Sub or Dup has made it returns ErrClosed.
func (c *Comm) Choice(kind plan.Kind, root, bytes int) (Choice, error) {
	chosen, digest, err := c.inner().Setup.Choose(kind, root, bytes)
	if chosen == nil {
		return Choice{}, err
	}
	return choiceOf(chosen, digest), err
}

func choiceOf(c *planner.Choice, digest string) Choice {
	of := c.Chosen.Candidate
	return Choice{of.Algorithm, of.Name(), c.Chosen.Plan.Name, digest, c.PredictedUs, c.By}
}

// Algorithms returns the names of the algorithms that c chooses from for a collective, for WithAlgorithm. Several
// goroutines may call it, also during a call and after Close.
func (c *Comm) Algorithms(kind plan.Kind) []string {
	return c.inner().Plans.Algorithms(kind)
}

// NetworkLimit returns the upper bound, in GB/s of message, for any plan of this kind on the network between the hosts
// as it was measured: the tree-packing bound for AllReduce, the minimum cut for a Broadcast or Reduce with this root.
// It returns 0 if there is no such limit: all ranks are on one host, or no limit of the kind is known. Messages are
// those of Choice.
func (c *Comm) NetworkLimit(kind plan.Kind, root int) float64 {
	return c.inner().Plans.LimitBetweenHosts(kind, root)
}
