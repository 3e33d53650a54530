//go:build linux

package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
)

// causeFile is the file in the folder of --output-dir that has the root-cause block, and the latest calls of all ranks.
const causeFile = "cause.txt"

// lastCalls returns the lines about the latest calls of the ranks for the end of the root-cause block, and writes
// causeFile: the block with all calls.
func (s *supervisor) lastCalls(block string) string {
	j, ends := s.ended()
	text := ""
	if s.job.Settings["verbose"] != "" {
		text = shortCalls(j, ends)
	}
	if s.job.OutputDir == "" {
		return text
	}
	name := filepath.Join(s.job.OutputDir, causeFile)
	if err := safefile.Store(name, []byte("treerun: "+block+"\n\n"+allCalls(j, ends))); err != nil {
		return text + fmt.Sprintf("\n    calls   of all ranks could not be written to --output-dir: %v", err)
	}
	return text + "\n    calls   of all ranks: " + name
}

// ended returns the job as its pages show it, and the ends of its ranks, by rank.
func (s *supervisor) ended() (*inspect.Job, []End) {
	ends := s.ends()
	slices.SortStableFunc(ends, func(a, b End) int { return a.Rank - b.Rank })
	j := &inspect.Job{ID: s.jobID}
	for _, e := range ends {
		if e.Last != nil {
			j.Ranks = append(j.Ranks, *e.Last)
		}
	}
	if s.epochSize > 0 {
		j.Epoch, j.Roster = s.members.Epoch(), s.roster
	}
	return j, ends
}

// noCalls is why no calls of a rank are known, "" where they are.
func (e *End) noCalls() string {
	switch {
	case e.Last != nil:
		return ""
	case e.Lost:
		return "was lost with host " + e.Host + ", and its calls with it"
	case e.Unstarted != "":
		return "could not be started"
	case e.Closed:
		return "had closed its world"
	}
	return "shows no calls: it has not called rank.Init, or does not use package rank"
}

// shortCalls has a line for ranks that were in the same calls, for at most maxRanks such groups.
func shortCalls(j *inspect.Job, ends []End) string {
	var b strings.Builder
	var lines []string
	ranks := make(map[string][]int)
	for i := range ends {
		line := " " + ends[i].noCalls()
		if line == " " {
			line = ": " + j.LastLine(ends[i].Last)
		}
		if ranks[line] == nil {
			lines = append(lines, line)
		}
		ranks[line] = append(ranks[line], ends[i].Rank)
	}
	for _, line := range lines[:min(len(lines), maxRanks)] {
		b.WriteString("\n    calls   " + inspect.About(ranks[line], line))
	}
	if more := len(lines) - maxRanks; more > 0 {
		fmt.Fprintf(&b, "\n    calls   of further ranks differ: %s %s not shown (see --output-dir)",
			numbers.Count(more, "line"), numbers.Are(more))
	}
	return b.String()
}

// allCalls lists all calls that are known.
func allCalls(j *inspect.Job, ends []End) string {
	var b strings.Builder
	b.WriteString("The latest calls of each rank when it ended, the latest first:\n")
	for i := range ends {
		b.WriteString("\n")
		if why := ends[i].noCalls(); why != "" {
			fmt.Fprintf(&b, "rank %d %s\n", ends[i].Rank, why)
		} else {
			b.WriteString(j.LastCalls(ends[i].Last))
		}
	}
	return b.String()
}
