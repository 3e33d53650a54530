//go:build linux

package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Print writes the verdict, and a table with a line for all ranks that are in the same state.
func (j *Job) Print(w io.Writer, verdict string) error {
	fmt.Fprintf(w, "job %s: %s, %s, for %s\n", j.ID, j.Program,
		numbers.Count(len(j.Ranks), "rank"),
		Seconds(time.Duration(j.Seen-j.Began)))
	fmt.Fprintln(w, verdict)
	for _, h := range j.Silent {
		fmt.Fprintf(w, "host %s does not answer\n", h)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	several := slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Host != j.Ranks[0].Host })
	hostHead := ""
	if several {
		hostHead = "HOST\t"
	}
	fmt.Fprintf(t, "RANKS\t%sPID\tPROCESS\tMEMORY\tCALL\tWAITS\tFOR\tLINE\n", hostHead)
	for _, group := range j.groups() {
		r := group[0]
		ranks := make([]int, len(group))
		memory, line := int64(0), r.Line
		for i, g := range group {
			ranks[i] = g.Rank
			memory = max(memory, g.Process.Memory)
			if g.Line != line {
				line = ""
			}
		}
		pid := strconv.Itoa(r.PID)
		if len(group) > 1 {
			pid = "-"
		}
		waits, on := "-", "-"
		if d := r.since(j.Seen); d > 0 {
			waits, on = Seconds(d), j.on(r)
		}
		size := "-"
		if r.Process.State.Known() {
			size = numbers.Bytes(memory >> 20 << 20)
		}
		host := ""
		if several {
			host = r.Host + "\t"
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", topo.RankList(ranks), host, pid, r.word(),
			size, r.call(), waits, on, cmp.Or(line, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	notes := make(map[string][]int)
	for i := range j.Ranks {
		r := &j.Ranks[i]
		if r.Blind != "" {
			notes[" "+r.Blind] = append(notes[" "+r.Blind], r.Rank)
		}
		if r.NoLine != "" {
			note := ": no line: " + r.NoLine
			notes[note] = append(notes[note], r.Rank)
		}
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		fmt.Fprintln(w, About(notes[note], note))
	}
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.Stack != "" {
			fmt.Fprintf(w, "\nrank %d, process %d on %s:\n%s", r.Rank, r.PID, r.Host, r.Stack)
		}
	}
	return nil
}

// call is what the table has about the call of the rank.
func (r *Rank) call() string {
	last, _, _ := strings.Cut(r.last(), " (")
	switch in := r.in(); {
	case in != "":
		return in
	case last != "":
		return "none since " + last
	case r.Page == nil:
		return "-"
	}
	return "none"
}

// groups returns the ranks, those together that a line of the table describes alike. Ranks that do not wait for others
// have a line each.
func (j *Job) groups() [][]*Rank {
	type likeness struct{ host, state, call, last, on string }
	index := make(map[likeness]int)
	var all [][]*Rank
	for i := range j.Ranks {
		r := &j.Ranks[i]
		like := likeness{r.Host, r.word(), r.in(), r.last(), j.on(r)}
		at, known := index[like]
		if !known || len(r.Waits) == 0 && len(j.Ranks) <= maxLines {
			index[like] = len(all)
			all = append(all, []*Rank{r})
			continue
		}
		all[at] = append(all[at], r)
	}
	return all
}

// maxLines is the number of ranks above which also those that do not wait share lines.
const maxLines = 32

// on lists the ranks that a rank waits for.
func (j *Job) on(r *Rank) string {
	return cmp.Or(topo.RankList(j.waitedFor(r)), "-")
}

// word is the state of the rank's process in one word.
func (r *Rank) word() string {
	if r.inDebugger() {
		return "debugger"
	}
	return r.Process.word()
}

// word is the state of a process in one word.
func (p *Process) word() string {
	switch {
	case !p.State.Known():
		return "-"
	case p.State.Stopped():
		return "stopped"
	case p.State.Ended():
		return "ended"
	case p.Over == 0 && p.State.Code == 'R':
		return "runs"
	case p.Over == 0:
		return "sleeps"
	case p.Hangs, p.Call != "" && p.Used < p.Over/5:
		return cmp.Or(p.Call, "blocked")
	case p.Used >= p.Over/5:
		return "computes"
	case p.Ready:
		return "starves"
	}
	return "sleeps"
}

// RanksText names ranks: "rank 3", "ranks 0,4-7".
func RanksText(ranks []int) string {
	return numbers.Plural(len(ranks), "rank") + " " + topo.RankList(ranks)
}

// About puts ranks in front of text: of a sentence about each of them, which begins with a blank, or of a colon.
func About(ranks []int, text string) string {
	name := RanksText(ranks)
	if len(ranks) > 1 && text[0] == ' ' {
		name = "each of " + name
	}
	return name + text
}
