package planner

import "github.com/treerun/treerun/cmd/treerun/internal/place"

// Places are the flags for the hosts of the ranks that measure.
type Places = place.Options
