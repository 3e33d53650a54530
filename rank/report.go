package rank

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/rank/internal/environ"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// When pairs of ranks cannot connect, every rank that has such a pair sends
// what it tried to rank 0, which makes one list of it; the others' errors name
// their own pairs only. A rank that cannot reach rank 0 has only its own error.

// report is what a rank could not reach, as msgpack.
type report struct {
	Version int
	Rank    int
	Lines   []string // one for every address that was tried
}

const (
	reportVersion = 2
	maxReport     = 32 << 10 // bytes
	maxLines      = 64       // of one rank's report
	maxLine       = 400      // bytes
	maxShown      = 100      // lines that rank 0 shows

	reportWait  = 2 * time.Second        // for reports, once one is expected, at most
	reportQuiet = 200 * time.Millisecond // without another one means that all have come
	maxConnect  = 15 * time.Second       // for a rank to be out of reach
)

// decodeReport reads a report that came to a rank of a job of size ranks.
func decodeReport(b []byte, size int) (r report, err error) {
	if len(b) > maxReport {
		return r, fmt.Errorf("report of %d bytes, at most %d are possible", len(b), maxReport)
	}
	if err := strict.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("report: %w", err)
	}
	if r.Version != reportVersion || r.Rank < 0 || r.Rank >= size || len(r.Lines) > maxLines {
		return r, fmt.Errorf("report of version %d, rank %d, %d lines", r.Version, r.Rank, len(r.Lines))
	}
	for _, l := range r.Lines {
		if len(l) > maxLine || strings.ContainsFunc(l, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return r, fmt.Errorf("report of rank %d with a line that cannot be shown: %.40q", r.Rank, l)
		}
	}
	return r, nil
}

// troubles returns a line for every address of the given ranks that this one
// did not get through to: "rank 2 (10.0.0.3, eth0 on host c) -> rank 0
// (10.0.0.1:7946): connection refused".
func (w *World) troubles(ranks []int) []string {
	var lines []string
	for _, to := range ranks {
		r := w.members.of(to)
		u := netconn.Unreached(r.failing)
		if u == nil {
			continue
		}
		for _, a := range u.Attempts {
			line := fmt.Sprintf("rank %d%s -> rank %d%s: %s", w.cfg.Rank, netconn.Where(w.sourceOf(a.At), w.cfg.Host), to,
				netconn.Where(a.At.String(), r.Name), a.Reason())
			lines = append(lines, line[:min(len(line), maxLine)])
		}
	}
	return lines[:min(len(lines), maxLines)]
}

// sourceOf says from where this rank sends to an address: "10.0.0.3, eth0"; "" when
// there is no way.
func (w *World) sourceOf(to netip.AddrPort) string {
	ip, err := sourceTowards(to)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(ip.String()+", "+w.net.device(ip), ", ")
}

// explain returns the error of Init where the ranks have all joined, and err is why it did not
// go on; cause is why its context has ended, if it has. Where pairs of ranks cannot connect all
// ranks learn that, and rank 0 which.
func (w *World) explain(cause, err error) error {
	self := w.cfg.Rank
	broken := w.mesh.IsBroken() // by a rank that cannot connect, or has given up
	switch known := new(exchange.Fault); {
	case broken:
	case errors.As(cause, &known):
		return known
	case w.mesh.Failure() != nil:
		return w.mesh.Failure()
	case errors.Is(cause, context.Canceled):
		return err
	}
	bad := w.members.failed()
	lines := w.troubles(bad)
	if len(lines) > 0 {
		w.mesh.BreakOff(self, 0, fmt.Errorf("cannot reach rank %d: %w", bad[0], w.members.of(bad[0]).failing))
	}
	switch {
	case self == 0 && (broken || len(lines) > 0):
		lines = w.collect(lines)
	case self != 0 && len(lines) > 0:
		w.report(lines)
	}
	if len(lines) > 0 {
		err = w.notConnected(lines)
	}
	if self != 0 && w.mesh.IsBroken() {
		// A launcher takes the first to end for the cause: rank 0 is to say it.
		time.Sleep(reportQuiet + reportQuiet/2)
	}
	return err
}

// notConnected is the error with some lines.
func (w *World) notConnected(lines []string) error {
	more := ""
	if len(lines) > maxShown {
		more = fmt.Sprintf("\n  and %d more", len(lines)-maxShown)
		lines = lines[:maxShown]
	}
	return &Error{
		Self: w.cfg.Rank, Rank: -1, Op: "Init",
		Err: fmt.Errorf("these ranks cannot connect:\n  %s%s", strings.Join(lines, "\n  "), more),
		Hint: fmt.Sprintf("is there a firewall? %s chooses the network, %s the ports", w.cfg.Source(environ.SettingIface),
			w.cfg.Source(environ.SettingPorts)),
	}
}

// report sends this rank's lines to rank 0, if that can be reached.
func (w *World) report(lines []string) {
	b := strict.Marshal(&report{reportVersion, w.cfg.Rank, lines})
	at := w.members.where(0)
	if len(b) > maxReport || len(at) == 0 {
		return
	}
	// The transport dials by the name alone. What does not arrive stands in this
	// rank's own error.
	_ = w.members.list.SendReliable(&memberlist.Node{Name: "0", Addr: at[0].Addr().AsSlice(), Port: at[0].Port()}, b)
}

// collect returns the lines of all ranks, of which own are those of rank 0.
func (w *World) collect(own []string) []string {
	lines := make([][]string, w.cfg.Size) // by rank
	lines[0] = own
	limit := time.After(reportWait)
	for quiet := time.After(reportWait); ; {
		select {
		case r := <-w.members.reports:
			lines[r.Rank], quiet = r.Lines, time.After(reportQuiet)
			continue
		case <-quiet:
		case <-limit:
		}
		return slices.Concat(lines...)
	}
}
