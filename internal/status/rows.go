package status

import (
	"strconv"
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
)

// Row is calls of one sort. The goroutine that has claimed the communicator writes; any may read.
type Row struct {
	Calls, Bytes   int64        // see Add
	Moving, Waited atomic.Int64 // nanoseconds
	Untimed        int64        // calls that are not timed before the next one is
}

// Rows: of kinds by their numbers, the same with functions, and others.
const (
	rowFuncs  = int(call.ExScan) + 1
	rowOthers = 2 * rowFuncs
	RowSplit  = rowOthers + int(call.Split-call.Exchange)
	RowLook   = rowOthers + int(call.Look-call.Exchange)
	RowSend   = RowLook + 1
	RowRecv   = RowSend + 1
	RowProbe  = RowRecv + 1
	Rows      = RowProbe + 1
)

// RowNames has the names of the rows, "" for one that has no calls.
var RowNames = func() (names [Rows]string) {
	for k := call.AllReduce; k <= call.ExScan; k++ {
		names[k], names[rowFuncs+int(k)] = k.String(), k.String()+"Func"
	}
	for k := call.Exchange; k <= call.Look; k++ {
		names[RowOf(&call.ID{Kind: k})] = k.String()
	}
	names[RowSend], names[RowRecv], names[RowProbe] = "Send", "Recv", "Probe"
	return names
}()

// RowOf returns the row of a call.
func RowOf(id *call.ID) int {
	switch {
	case id.Kind == call.Dup || id.Kind == call.SplitByHost:
		return RowSplit
	case id.Kind > call.Look:
		return int(call.AllGather)
	case id.Kind >= call.Exchange:
		return rowOthers + int(id.Kind-call.Exchange)
	case id.Func:
		return rowFuncs + int(id.Kind)
	}
	return int(id.Kind)
}

// KindOf returns the kind of the calls of a row.
func KindOf(row int) call.Kind {
	switch {
	case row >= RowSend:
		return call.Message
	case row >= rowOthers:
		return call.Exchange + call.Kind(row-rowOthers)
	case row >= rowFuncs:
		return call.Kind(row - rowFuncs)
	}
	return call.Kind(row)
}

// Add adds to a number that the goroutine that has claimed the communicator changes, and others read. By Go's memory
// model a plain store of a word is seen whole; an atomic one would take a tenth of the time of a small call.
func Add(number *int64, n int) {
	if underRace || strconv.IntSize < 64 {
		atomic.AddInt64(number, int64(n))
		return
	}
	*number += int64(n)
}
