//go:build linux

package inspect

import (
	"encoding/json"
	"io"
	"time"

	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/waits"
)

// jsonJob is a Job as JSON: docs/running.md describes it. Durations are in seconds. What is not known is null.
type jsonJob struct {
	Job         string     `json:"job"`
	Program     string     `json:"program"`
	Running     float64    `json:"running_s"`
	Epoch       int        `json:"epoch"`
	SilentHosts []string   `json:"silent_hosts"`
	Verdict     string     `json:"verdict"`
	Waiting     int        `json:"waiting"`
	Call        string     `json:"call"`
	Together    []int      `json:"together"`
	WaitingFor  float64    `json:"waiting_s"`
	AtFault     []int      `json:"at_fault"`
	Circle      bool       `json:"circle"`
	Ranks       []jsonRank `json:"ranks"`
}

// jsonRank is a rank of a jsonJob.
type jsonRank struct {
	Rank        int        `json:"rank"`
	Host        string     `json:"host"`
	PID         int        `json:"pid"`
	Process     string     `json:"process"`
	SystemCall  string     `json:"system_call"`
	CPU         float64    `json:"cpu_s"`
	Memory      int64      `json:"memory_bytes"`
	Unknown     string     `json:"unknown"`
	Phase       *string    `json:"phase"`
	Call        string     `json:"call"`
	LastCall    string     `json:"last_call"`
	Waiting     float64    `json:"waiting_s"`
	WaitsFor    []int      `json:"waits_for"`
	Line        string     `json:"line"`
	LineUnknown string     `json:"line_unknown"`
	Comms       []jsonComm `json:"communicators"`
	Stacks      string     `json:"stacks,omitempty"`
}

// jsonComm is a communicator of a jsonRank, and jsonTotal all its calls of one sort.
type jsonComm struct {
	Name   string      `json:"name"`
	Size   int         `json:"size"`
	Latest []string    `json:"latest"`
	Totals []jsonTotal `json:"totals"`
}

type jsonTotal struct {
	Call    string  `json:"call"`
	Calls   int64   `json:"calls"`
	Bytes   int64   `json:"bytes"`
	Time    float64 `json:"time_s"`
	Waiting float64 `json:"waiting_s"`
}

// JSON writes the job and the verdict as one line of JSON.
func (j *Job) JSON(w io.Writer, v *waits.Verdict) error {
	out := jsonJob{Job: j.ID, Program: j.Program, Running: time.Duration(j.Seen - j.Began).Seconds(), Epoch: j.Epoch,
		SilentHosts: list(j.Silent), Verdict: j.Text(v), Waiting: v.Waiting, Call: v.Call, Together: list(v.Together),
		AtFault: list(v.AtFault), Circle: v.Circle != "", Ranks: []jsonRank{}}
	if v.Waiting > 0 {
		out.WaitingFor = time.Duration(j.Seen - v.Since).Seconds()
	}
	for i := range j.Ranks {
		out.Ranks = append(out.Ranks, j.jsonRank(&j.Ranks[i]))
	}
	return json.NewEncoder(w).Encode(out)
}

func (j *Job) jsonRank(r *Rank) jsonRank {
	out := jsonRank{Rank: r.Rank, Host: r.Host, PID: r.PID, Process: r.word(), SystemCall: r.Process.Call,
		CPU: r.Process.CPU.Seconds(), Memory: r.Process.Memory, Unknown: r.Blind, Call: r.in(), LastCall: r.last(),
		Waiting: r.since(j.Seen).Seconds(), WaitsFor: list(j.waitedFor(r)),
		Line: r.Line, LineUnknown: r.NoLine, Comms: []jsonComm{}, Stacks: r.Stack}
	if r.Process.Call != "" && out.Process == r.Process.Call {
		out.Process = "blocked"
	}
	if r.Page == nil {
		return out
	}
	phase := r.Page.Phase.String()
	out.Phase = &phase
	for i := range r.Page.Comms {
		out.Comms = append(out.Comms, newJSONComm(&r.Page.Comms[i]))
	}
	return out
}

func newJSONComm(c *status.Comm) jsonComm {
	out := jsonComm{Name: c.Name, Size: c.Size, Latest: []string{}, Totals: []jsonTotal{}}
	for _, id := range c.Latest {
		out.Latest = append(out.Latest, id.String())
	}
	for _, t := range c.Totals {
		out.Totals = append(out.Totals,
			jsonTotal{t.Call, t.Calls, t.Bytes, (t.Moving + t.Waited).Seconds(), t.Waited.Seconds()})
	}
	return out
}

// list returns s, and an empty list in place of nil, which would be null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
