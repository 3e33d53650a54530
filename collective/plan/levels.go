package plan

import "slices"

// Levels returns a level from 1 on for every one of some steps. before has, for each, the steps that it waits for,
// which stand before it: their levels are lower. A step for which others wait has the highest such level that raises
// none of theirs, and another one the lowest. So a chunk is sent one level before it is read, if that can be. One that
// lies in its slot for as many levels as there are slots would stop its sender.
func Levels(before [][]int) []int {
	levels := make([]int, len(before))
	for i, list := range before {
		for _, k := range list {
			levels[i] = max(levels[i], levels[k])
		}
		levels[i]++
	}
	highest := make([]int, len(before)) // 0: no step waits for it
	for i, list := range slices.Backward(before) {
		if highest[i] > 0 {
			levels[i] = highest[i]
		}
		for _, k := range list {
			if highest[k] == 0 || highest[k] >= levels[i] {
				highest[k] = levels[i] - 1
			}
		}
	}
	return levels
}
