package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
)

// Choice is the plan that a call takes; see Comm.Choice.
type Choice struct {
	Algorithm   string  // as in plan files: "direct", "hierarchical:star/packing"
	Name        string  // the algorithm and its variant, as WithAlgorithm takes it: "direct:split"
	Plan        string  // the plan's name
	Digest      string  // of the plan, as `treerun plan` prints it
	PredictedUs float64 // NaN where it cannot be predicted
	By          string  // what decided: the price, or which rule
}

// Choice returns the plan that a call of this kind and root takes for a message of so many
// bytes. Where every rank has a part the message is that of all parts; where the kind has
// no root it is ignored. Every rank gets the same answer by itself. Choice must not run
// beside a call of the communicator.
func (c *Comm) Choice(kind plan.Kind, root, bytes int) (Choice, error) {
	chosen, digest, err := c.inner().Choose(kind, root, bytes)
	if chosen == nil {
		return Choice{}, err
	}
	return choiceOf(chosen, digest), err
}

func choiceOf(c *planner.Choice, digest string) Choice {
	return Choice{c.Algorithm, c.Name(), c.Plan.Name, digest, c.PredictedUs, c.By}
}

// Algorithms returns the names of the algorithms among which c chooses for a collective,
// for WithAlgorithm. It must not run beside a call of the communicator.
func (c *Comm) Algorithms(kind plan.Kind) []string { return c.inner().Plans.CandidateNames(kind) }

// NetworkLimit returns the most, in GB/s of message, that any plan of this kind could
// reach on the network between the hosts as it was measured: the tree-packing bound for
// AllReduce, the least cut for a Broadcast or Reduce with this root. It returns 0 where
// there is no such limit: all ranks are on one host, or the kind has none that is known.
// Messages are those of Choice.
func (c *Comm) NetworkLimit(kind plan.Kind, root int) float64 {
	return c.inner().Plans.LimitBetweenHosts(kind, root)
}
