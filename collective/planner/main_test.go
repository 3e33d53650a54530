package planner

import (
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Computing(m) }
