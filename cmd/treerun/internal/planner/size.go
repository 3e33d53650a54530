package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// size is a number of bytes on the command line.
type size = cmdline.Size

// inWords writes a size for people, in the largest unit that needs no fraction.
func inWords(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n != 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}

// about writes a size for people that came out of a division.
func about(bytes float64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%.0f B", math.Ceil(bytes))
	}
	unit := ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if bytes < 1024 {
			break
		}
		bytes, unit = bytes/1024, u
	}
	return fmt.Sprintf("%.1f %s", bytes, unit)
}
