//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// entry is a line of the record: one of its parts.
type entry struct {
	Fact    string  `json:"fact"`
	Value   string  `json:"value"`
	Kind    string  `json:"kind"`
	Healthy float64 `json:"healthy_s"`
	Ranks   int     `json:"ranks"`
}

// pageOf returns the page of a record.
func pageOf(record []byte) (string, error) {
	var facts, rows, calms, crowds strings.Builder
	right, all, last := 0, 0, ""
	for line := range bytes.Lines(record) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return "", fmt.Errorf("a line of the record: %w", err)
		}
		switch {
		case e.Fact != "":
			fmt.Fprintf(&facts, "- %s: %s\n", cell(e.Fact), cell(e.Value))
		case e.Kind != "":
			var r row
			if err := json.Unmarshal(line, &r); err != nil {
				return "", fmt.Errorf("a hang in the record: %w", err)
			}
			all++
			is := "wrong"
			if r.Wrong == "" {
				right, is = right+1, "right"
			}
			if r.Place != last {
				last = r.Place
				fmt.Fprintf(&rows, "\n**%s**\n\n| rank 2 | verdict of the first `treerun status` | process | | status "+
					"| watch |\n|---|---|---|---|---|---|\n", cell(placeNames[r.Place]))
			}
			watch := "none"
			if r.Watch > 0 {
				watch = fmt.Sprintf("%.1f s", r.Watch)
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %.2f s | %s |\n", cell(r.What), cell(r.Verdict), cell(r.State), is, r.Took,
				watch)
		case e.Healthy > 0:
			var c calm
			if err := json.Unmarshal(line, &c); err != nil {
				return "", fmt.Errorf("a healthy job in the record: %w", err)
			}
			fmt.Fprintf(&calms, "| %s | %.0f s | %d | %.0f | %d |\n", cell(placeNames[c.Place]), c.Seconds, c.Busy, c.Load,
				len(c.Lines))
		case e.Ranks > 0:
			var c crowd
			if err := json.Unmarshal(line, &c); err != nil {
				return "", fmt.Errorf("a job of many ranks in the record: %w", err)
			}
			fmt.Fprintf(&crowds, "| %d | %.3f s | %.1f s | %.1f %% | %.1f %% | %.0f |\n", c.Ranks, c.Status, c.Watch,
				100*c.Quiet, 100*c.Hanging, c.Load)
		}
	}
	return fmt.Sprintf(pageText, right, all, rows.String(), calms.String(), crowds.String(), facts.String()), nil
}

// cell returns text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

const pageText = `# Reasons of hangs

A job of eight ranks makes AllReduces until one rank hangs in a known way. Two seconds later ` + "`treerun status`" + ` looks at the
job once. The expected rank, call, state and line come from the program that hangs. %d of %d rows are right.
` + "`scripts/hangs.sh`" + ` writes this page; ` + "`scripts/hangs`" + ` has the programs.

The last column is the time from the hang to the line of the hang watch with the same verdict. It waits for a second
where no work of the rank can be the reason, else for ten: see [running.md](../running.md).
%s
## False alarms

Healthy jobs whose ranks work unevenly: rank 1 takes five times as long as the others, and rank 0 writes a checkpoint of
three seconds every twenty. Lines of the watch would be wrong.

| where | time | busy processes beside it | load | lines |
|---|---|---|---|---|
%s
## Many ranks on one host

Sleeping processes with pages of ranks that wait in a Barrier, one of them stopped. The launcher's share of a core
includes all its work: before the ranks wait, and after the watch has printed the verdict.

| ranks | status | watch | before | hanging | load |
|---|---|---|---|---|---|
%s
## Where

%s`

// printPage prints the page of a record.
func printPage(name string) error {
	record, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := pageOf(record)
	fmt.Print(text)
	return err
}
