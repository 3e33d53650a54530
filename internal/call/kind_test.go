package call_test

import (
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// TestKindsOfPlans: a collective has the number, the name and the root that it has in package plan.
func TestKindsOfPlans(t *testing.T) {
	for kind := range plan.Kinds {
		if k := call.Kind(kind); strings.ToLower(k.String()) != kind.String() {
			t.Errorf("number %d is %v, and %v in package plan", kind, k, kind)
		}
		h := call.ID{Kind: call.Kind(kind), Root: -1, Number: 1}.Header()
		if rooted := h.ID().Root >= 0; rooted != kind.HasRoot() {
			t.Errorf("%v has a root: %v, in package plan %v", call.Kind(kind), rooted, kind.HasRoot())
		}
	}
}
