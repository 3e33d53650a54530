package bench

import (
	_ "embed"
	"fmt"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// helpText has the flags and the limits in two places.
//
//go:embed help.txt
var helpText string

func printHelp(o *meter.Options) error {
	limits := ""
	for _, c := range meter.Collectives {
		if !c.Empty {
			limits += fmt.Sprintf("  %-14s read %s, write %s", c.Name, c.Least.Read, c.Least.Written)
			if in := c.LeastInPlace; in != (meter.Moves{}) {
				limits += fmt.Sprintf("; in place read %s, write %s", in.Read, in.Written)
			}
			limits += "\n"
		}
	}
	_, err := fmt.Printf(helpText, cmdline.Usages(o.Flags), limits)
	return err
}
