package planner

import (
	"math"
	"strconv"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// size is a number of bytes on the command line.
type size = cmdline.Size

func bytesText(n int64) string {
	s := size(n)
	return s.String()
}

// about writes a size for people that came out of a division.
func about(bytes float64) string {
	unit := "B"
	for _, u := range []string{"K", "M", "G"} {
		if bytes < 1024 {
			break
		}
		bytes, unit = bytes/1024, u
	}
	if unit == "B" {
		return strconv.FormatFloat(math.Ceil(bytes), 'f', 0, 64) + " B"
	}
	return strconv.FormatFloat(bytes, 'f', 1, 64) + unit
}
