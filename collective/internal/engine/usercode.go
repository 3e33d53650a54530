package engine

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/treerun/treerun/transport"
)

// combine has the function of the caller combine two chunks. Its panic ends the call on all ranks, and no goroutine:
// the one that polls may be in another call.
func (c *Call) combine(into, from []byte) {
	returned := false
	defer func() { c.caught(returned, recover()) }()
	c.Func.Combine(into, from)
	returned = true
}

// runThen is combine for what follows the last chunk of c, once. It reports whether that has returned.
func (c *Call) runThen() (returned bool) {
	if c.program.e.broken != nil {
		return false
	}
	defer func() { c.caught(returned, recover()) }()
	c.Then()
	return true
}

// caught takes in the end of a function of the caller: why is its panic, nil where it has returned, or has ended its
// goroutine.
func (c *Call) caught(returned bool, why any) {
	if returned {
		return
	}
	e := c.program.e
	f := Panicked(e.rank, c.Text(), "the program's function", why)
	e.broken = f
	if why == nil { // nothing below returns to Poll
		e.ep.Abort(f)
	}
}

// Panicked is the fault of a rank on which code of the program, who, has panicked because of why in the call doing, or
// has ended its goroutine if why is nil. Its caller is the deferred function that has recovered, or is called by that.
func Panicked(rank int, doing, who string, why any) transport.Fault {
	what := "ended its goroutine"
	if why != nil {
		words := strings.ReplaceAll(fmt.Sprint(why), "\n", "; ")
		what = fmt.Sprintf("panicked%s: %.300s", panicPlace(), words)
	}
	return transport.Faultf(transport.FaultAborted, rank, "rank %d in %s: %s %s", rank, doing, who, what)
}

// panicPlace returns the line of the program that panics, with a space before it; "" if it is not known.
func panicPlace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for panics := false; ; {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			if panics && f.File != "" {
				return fmt.Sprintf(" at %s:%d", filepath.Base(f.File), f.Line)
			}
		} else if f.Function == "runtime.gopanic" {
			panics = true
		}
		if !more {
			return ""
		}
	}
}
