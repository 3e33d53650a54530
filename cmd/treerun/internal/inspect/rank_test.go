//go:build linux

package inspect

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// page is a rank's page with this world and these waits. Pages are shared memory; here the page is written by a process
// of its own, this one, through the same bytes.
func page(tb testing.TB, epoch, rank, size int, w waits.Status) []byte {
	tb.Helper()
	b := memory()
	p := status.NewPage(b)
	p.SetWorld(os.Getpid(), epoch, rank, size)
	p.SetPhase(status.Running)
	if !p.SetWaits(strict.Marshal(&w)) {
		tb.Fatal("there is no room for the waits")
	}
	return b
}

// Ranks wait for numbers of their epoch, and the verdict has the launcher's: in the second epoch of a job whose rank 1
// was lost, rank 2 is number 1.
func TestVerdictHasTheNumbersOfTheStart(t *testing.T) {
	wait := waits.Status{Waits: []waits.Waiting{{Scope: "world", In: "Barrier #7", For: []int{1}, Since: 1e9}}}
	pages := map[int][]byte{
		0: page(t, 1, 0, 3, wait),
		2: page(t, 1, 1, 3, waits.Status{}),
		3: page(t, 1, 2, 3, wait),
	}
	j := Job{Seen: 3e9}
	for _, origin := range []int{0, 2, 3} {
		r := Rank{Rank: origin, PID: 77, Process: Process{State: job.ProcState{Code: 'T', Signal: 19}}}
		if origin != 2 {
			r.Process.State = job.ProcState{Code: 'S'}
		}
		r.readPage(bytes.NewReader(pages[origin]))
		j.Ranks = append(j.Ranks, r)
	}
	v := Judge(&j)
	const want = "2 of 3 ranks wait together in Barrier #7 for 2s; " +
		"rank 2 is in no call; its process 77 is stopped by SIGSTOP"
	if text := j.Text(&v); text != want || !slices.Equal(v.Together, []int{0, 3}) {
		t.Errorf("%q, together %v, want %q", text, v.Together, want)
	}
	var table strings.Builder
	if err := j.Print(&table, ""); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"\n0,3 ", "\n2 "} {
		if !strings.Contains(table.String(), row) {
			t.Errorf("no row %q in\n%s", row, &table)
		}
	}
	var line strings.Builder
	if err := j.JSON(&line, &v); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"waiting":2,"call":"Barrier #7","together":[0,3],"waiting_s":2,"at_fault":[2],`,
		`"silent_hosts":[],`, `"circle":false,`, `"rank":2,"host":"","pid":77,"process":"stopped","system_call":"",`,
		`"phase":"running","call":"Barrier #7","last_call":"","waiting_s":2,"waits_for":[2],"line":"",`} {
		if !strings.Contains(line.String(), field) {
			t.Errorf("no field %s in\n%s", field, &line)
		}
	}
}

// Ranks in rank.Init wait for those that have not called it, and ranks whose host is silent are waited for, too.
func TestVerdictOfUnknownRanks(t *testing.T) {
	running := Process{State: job.ProcState{Code: 'S'}}
	init := Rank{Rank: 0, PID: 7, Process: running}
	b := memory()
	status.NewPage(b).SetWorld(7, 0, 0, 2)
	init.readPage(bytes.NewReader(b))
	absent := Rank{Rank: 1, PID: 8, Process: running}
	absent.readPage(bytes.NewReader(memory()))
	j := Job{Ranks: []Rank{init, absent}, Seen: init.Page.Since + 5e9}
	v := Judge(&j)
	const want = "1 of 2 ranks waits in rank.Init for 5s; rank 1 has not called rank.Init yet, or does not use package " +
		"rank; its process 8 is sleeping"
	if text := j.Text(&v); text != want {
		t.Errorf("in Init: %q, want %q", text, want)
	}

	waiting := Rank{Rank: 0, PID: 7, Process: running}
	wait := waits.Status{Waits: []waits.Waiting{{In: "Barrier #7", For: []int{1}, Since: 1e9}}}
	waiting.readPage(bytes.NewReader(page(t, 2, 0, 2, wait)))
	silent := Rank{Rank: 4, PID: 9, Blind: "is on a host that does not answer"}
	j = Job{Ranks: []Rank{waiting, silent}, Seen: 3e9, Epoch: 2, Roster: []int{0, 4}}
	v = Judge(&j)
	const silentText = "1 of 2 ranks waits in Barrier #7 for 2s; rank 4 is on a host that does not answer; " +
		"nothing is known about its process 9"
	if text := j.Text(&v); text != silentText {
		t.Errorf("silent host: %q, want %q", text, silentText)
	}
}

// Notes below the table are about one rank, or about each of several.
func TestNotesOfRanks(t *testing.T) {
	const blind = "is on a host that does not answer"
	j := Job{Ranks: []Rank{{Rank: 0, NoLine: "stripped"}, {Rank: 1, Blind: blind}, {Rank: 3, NoLine: "stripped"}}}
	for _, want := range []string{"\nrank 1 is on a host that does not answer\nranks 0,3: no line: stripped\n",
		"\neach of ranks 1,2 is on a host that does not answer\nranks 0,3: no line: stripped\n"} {
		var b strings.Builder
		if err := j.Print(&b, ""); err != nil || !strings.HasSuffix(b.String(), want) {
			t.Errorf("%v\n%s\nwant %s", err, &b, want)
		}
		j.Ranks = append(j.Ranks, Rank{Rank: 2, Blind: blind})
	}
}

// Whatever is in a page, the rank can be checked, judged and printed.
func FuzzReadPage(f *testing.F) {
	good := waits.Status{Waits: []waits.Waiting{{Scope: "world", In: "Recv", For: []int{1}, Since: 5}}}
	f.Add(strict.Marshal(&good), 0)
	f.Add([]byte("\x91"), 64)
	f.Fuzz(func(t *testing.T, part []byte, at int) {
		b := page(t, 0, 0, 2, waits.Status{})
		p := status.NewPage(b)
		if p.SetWaits(part[:min(len(part), 4096)]) && at > 0 && at < len(b) {
			copy(b[at:], part)
		}
		r := Rank{PID: os.Getpid()}
		r.readPage(bytes.NewReader(b))
		if r.Check() != nil {
			return
		}
		j := Job{Ranks: []Rank{r}}
		v := Judge(&j)
		_ = j.Text(&v)
		if err := j.Print(new(strings.Builder), ""); err != nil {
			t.Error(err)
		}
	})
}
