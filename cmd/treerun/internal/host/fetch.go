//go:build linux

package host

import (
	"io"
	"math"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
)

// fetchAtOnce is the number of events in one part of a recording: half a megabyte.
const fetchAtOnce = 8192

// fetch reports a recording, or a part of it, from the memory of the rank. The Reaper does not wait for it.
func fetch(h *Host, b *wire.Fetch) {
	wanted := slices.DeleteFunc(slices.Clone(h.kept), func(c *child) bool {
		if b.What == wire.FetchEvents {
			return c.rank != b.Rank || c.attempt != b.Attempt
		}
		return b.What == wire.FetchClock || c.ended
	})
	ended := func(c *child) bool { return c.ended }
	whole := b.What == wire.FetchEvents && slices.ContainsFunc(wanted, ended)
	go func() {
		out := &wire.Fetched{Number: b.Number, Clock: record.Clock()}
		if len(wanted) == 0 && b.What == wire.FetchEvents {
			out.Parts = append(out.Parts, wire.Recorded{Rank: b.Rank, Attempt: b.Attempt, Why: "its host has no recording"})
		}
		for _, c := range wanted {
			part := recorded(c, b)
			if whole && (part.Head == nil || part.Next > part.Head.Count) {
				h.reaper.Do(func() { h.kept = slices.DeleteFunc(h.kept, func(o *child) bool { return o == c }) })
				_ = c.file.Close()
			}
			out.Parts = append(out.Parts, part)
		}
		h.cfg.Report(out)
	}()
}

// recorded reads a part of the recording of a rank.
func recorded(c *child, b *wire.Fetch) wire.Recorded {
	out := wire.Recorded{Rank: c.rank, Attempt: c.attempt}
	const at = int64(job.StatusAt + record.At)
	file := io.NewSectionReader(c.file, at, math.MaxInt64-at)
	var err error
	if out.Head, err = record.Read(file, c.events); err == nil && b.What == wire.FetchEvents {
		out.Events, out.Next, err = record.ReadEvents(file, c.events, b.From, out.Head.Count, fetchAtOnce)
	}
	if err == nil && b.What != wire.FetchEvents {
		out.Head.Planner = nil
	}
	if err != nil {
		out.Head, out.Why = nil, err.Error()
	}
	return out
}
