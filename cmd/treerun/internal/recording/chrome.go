package recording

import (
	"encoding/json"
	"io"
)

// chrome writes the format of Chrome's trace viewer: an object with a list of events.
type chrome struct {
	w       io.Writer
	err     error
	started bool
	groups  map[int]int // by row
}

// chromeEvent is an event of the list. Times are in microseconds.
type chromeEvent struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name,omitempty"`
	Category string         `json:"cat,omitempty"`
	At       float64        `json:"ts"`
	Group    int            `json:"pid"`
	Row      int            `json:"tid"`
	ID       uint64         `json:"id,omitempty"`
	Binds    string         `json:"bp,omitempty"`
	Scope    string         `json:"s,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Phases of a chromeEvent.
const (
	phaseBegin     = "B"
	phaseEnd       = "E"
	phaseInstant   = "i"
	phaseFlow      = "s"
	phaseFlowEnd   = "f"
	phaseMetadata  = "M"
	flowName       = "waits for"
	enclosingSlice = "e"
)

func (c *chrome) add(e *chromeEvent) {
	if c.err != nil {
		return
	}
	separator := ",\n"
	if !c.started {
		c.started, separator = true, `{"displayTimeUnit":"ns","traceEvents":[`+"\n"
	}
	text, err := json.Marshal(e)
	if err == nil {
		_, err = io.WriteString(c.w, separator+string(text))
	}
	c.err = err
}

func (c *chrome) metadata(name string, group, row int, args map[string]any) {
	c.add(&chromeEvent{Phase: phaseMetadata, Name: name, Group: group, Row: row, Args: args})
}

func (c *chrome) group(id int, name, label string) {
	c.metadata("process_name", id, 0, map[string]any{"name": name})
	c.metadata("process_labels", id, 0, map[string]any{"labels": label})
	c.metadata("process_sort_index", id, 0, map[string]any{"sort_index": id})
}

func (c *chrome) row(id, group int, name string, order int) {
	if c.groups == nil {
		c.groups = make(map[int]int)
	}
	c.groups[id] = group
	c.metadata("thread_name", group, id, map[string]any{"name": name})
	c.metadata("thread_sort_index", group, id, map[string]any{"sort_index": order})
}

func (c *chrome) event(row int, at int64, phase, name, category string) *chromeEvent {
	return &chromeEvent{Phase: phase, Name: name, Category: category, At: float64(max(at, 0)) / 1e3, Group: c.groups[row],
		Row: row}
}

func (c *chrome) begin(row int, at int64, name, category string, args []arg, arrows []uint64) {
	e := c.event(row, at, phaseBegin, name, category)
	e.Args = argsOf(args)
	c.add(e)
	for _, a := range arrows {
		f := c.event(row, at, phaseFlowEnd, flowName, "wait")
		f.ID, f.Binds = a, enclosingSlice
		c.add(f)
	}
}

func (c *chrome) end(row int, at int64) { c.add(c.event(row, at, phaseEnd, "", "")) }

func (c *chrome) mark(row int, at int64, name string, args []arg, arrow uint64) {
	if arrow == 0 {
		e := c.event(row, at, phaseInstant, name, "mark")
		e.Scope, e.Args = "t", argsOf(args)
		c.add(e)
		return
	}
	c.begin(row, at, name, "mark", args, nil) // an arrow needs a slice to begin at
	f := c.event(row, at, phaseFlow, flowName, "wait")
	f.ID = arrow
	c.add(f)
	c.end(row, at)
}

func argsOf(args []arg) map[string]any {
	m := make(map[string]any, len(args))
	for _, a := range args {
		m[a.name] = a.value
	}
	return m
}

// finish ends the list.
func (c *chrome) finish() {
	if c.err == nil {
		_, c.err = io.WriteString(c.w, "\n]}\n")
	}
}
