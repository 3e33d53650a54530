//go:build linux

package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/safefile"
)

// result is the content of the file of --result: docs/running.md describes it.
type result struct {
	Job      string       `json:"job"`
	Program  string       `json:"program"`
	Args     []string     `json:"args"`
	State    string       `json:"state"`
	ExitCode int          `json:"exit_code"`
	Began    time.Time    `json:"began"`
	Seconds  float64      `json:"seconds"`
	Cause    *resultCause `json:"cause"`
	Restarts int          `json:"restarts"`
	Losses   []string     `json:"losses"`
	Ranks    []resultRank `json:"ranks"`
}

// resultCause is the first failure of a job.
type resultCause struct {
	Rank *int   `json:"rank"` // null: not a rank's
	Host string `json:"host"`
	Text string `json:"text"`
}

// resultRank is the end of a rank's latest process.
type resultRank struct {
	Rank     int      `json:"rank"`
	Program  string   `json:"program"`
	Host     string   `json:"host"`
	PID      int      `json:"pid"`
	Attempt  int      `json:"attempt"`
	ExitCode *int     `json:"exit_code"` // null: it has not ended by itself
	Signal   string   `json:"signal"`
	Stopped  bool     `json:"stopped_by_treerun"`
	Ended    *float64 `json:"ended_s"` // null: treerun has not seen its end
	Hint     string   `json:"hint"`
	Stdout   []string `json:"stdout_tail"`
	Stderr   []string `json:"stderr_tail"`
}

// states are the words for how a job has ended.
var states = map[causeKind]string{noCause: "succeeded", byFailure: "failed", bySignal: "stopped",
	byTimeout: "timed out", byOutput: "output failed", byError: "not started"} // "failed" where ranks had been started

// ResultOf writes the file of --result of a job that has failed with an error of treerun, unless Run has written it.
func (j *Job) ResultOf(err error) {
	j.store(&result{Program: j.Program, Args: j.Args, State: states[byError], ExitCode: cmdline.ExitCode(err),
		Began: time.Now().UTC(), Cause: &resultCause{Text: err.Error()}, Losses: []string{}, Ranks: []resultRank{}})
}

// store writes the first result of a job to its file, whole or not at all. Its error is printed, and changes no exit
// code.
func (j *Job) store(r *result) {
	if j.Result == "" || j.stored {
		return
	}
	j.stored = true
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = safefile.Save(j.Result, append(data, '\n'))
	}
	if err != nil {
		output.NewScreen(os.Stdout, os.Stderr).Err.Errorf("--result: %v", err)
	}
}

// writeResult writes the file of --result.
func (s *supervisor) writeResult() {
	if s.job.Result == "" {
		return
	}
	r := result{Job: s.jobID, Program: s.job.Program, Args: s.job.Args, State: states[s.cause.kind],
		ExitCode: s.exitCode(), Began: s.start.UTC(), Seconds: time.Since(s.start).Seconds(),
		Restarts: s.members.Restarts(), Losses: []string{}, Ranks: []resultRank{}}
	s.losses.settle()
	for _, l := range s.losses.first {
		r.Losses = append(r.Losses, l.text)
	}
	if s.cause.kind != noCause {
		r.Cause = s.resultCause()
	}
	if s.cause.kind == byError && slices.ContainsFunc(s.ranks, func(r *rankState) bool { return r.PID != 0 }) {
		r.State = states[byFailure]
	}
	programs := wire.Run{Parts: s.job.Parts}
	for _, k := range s.ranks {
		rank := k.result()
		if rank.Program = s.job.Program; len(programs.Parts) > 0 {
			rank.Program = programs.PartOf(k.Rank).Args[0]
		}
		r.Ranks = append(r.Ranks, rank)
	}
	s.job.store(&r)
}

// resultCause returns the first failure of a job that has not ended well.
func (s *supervisor) resultCause() *resultCause {
	first, failed := firstFailure(s.ends())
	switch {
	case s.cause.kind == bySignal:
		return &resultCause{Text: "stopped by " + job.SignalName(s.cause.signal) + s.signaled}
	case s.cause.kind == byTimeout:
		return &resultCause{Text: fmt.Sprintf("the time limit of %s was over", s.job.Timeout)}
	case s.cause.kind != byFailure || !failed:
		return &resultCause{Text: s.cause.err.Error()}
	case first.Lost:
		return &resultCause{Host: first.Host, Text: fmt.Sprintf("host %s was lost: %s", first.Host, first.Why)}
	}
	text := fmt.Sprintf("rank %d %s", first.Rank, strings.TrimSuffix(first.outcome(), ","))
	return &resultCause{Rank: &first.Rank, Host: first.Host, Text: text}
}

func (r *rankState) result() resultRank {
	out := resultRank{Rank: r.Rank, Host: r.host.Name, PID: r.PID, Attempt: r.Attempt, Stopped: r.Stopped, Hint: r.Hint,
		Stdout: lines(r, wire.Stdout), Stderr: []string{}}
	if !r.merged() {
		out.Stderr = lines(r, wire.Stderr)
	}
	if r.Unstarted != "" {
		out.Hint = r.Unstarted
	}
	if !r.ended {
		return out
	}
	seconds := r.After.Seconds()
	out.Ended = &seconds
	if r.Signal != 0 {
		out.Signal = job.SignalName(r.Signal)
	} else if !r.Lost {
		out.ExitCode = &r.Code
	}
	return out
}

// lines returns the last lines of an output of a rank.
func lines(r *rankState, stream int) []string {
	return append([]string{}, r.lastLines(stream, stderrLines)...)
}

// lastLines returns at most limit last lines of an output of a rank, without that of treerun about a debugger.
func (r *rankState) lastLines(stream, limit int) []string {
	own := fmt.Sprintf("treerun: rank %d%s", r.Rank, host.InDebugger)
	list := slices.DeleteFunc(r.streams[stream].Tail.Lines(limit+1), func(line string) bool {
		return strings.HasPrefix(line, own)
	})
	return list[max(0, len(list)-limit):]
}
