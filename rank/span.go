package rank

import "github.com/treerun/treerun/internal/record"

// Span begins a phase of the program, such as "load" or "epoch", and returns the function that ends it: phases appear
// beside the calls of the rank in the files of treerun --trace. Spans of one goroutine must not overlap without one
// being within the other. Without --trace a Span costs some nanoseconds. The names of a program should be few: of more
// than some hundred names the rest are shown as "(others)".
//
//	defer rank.Span(w, "load")()
func Span(w *World, name string) (end func()) { return w.cfg.Record.Phase(record.Span, "", name) }
