package rank

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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
	Rank  int
	Pairs netconn.Report
}

const (
	maxReport   = 64 << 10               // bytes
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
	if r.Rank < 0 || r.Rank >= size {
		return r, fmt.Errorf("report of rank %d of %d", r.Rank, size)
	}
	return r, r.Pairs.Check(size)
}

// troubles returns what kept this rank from reaching the given ones: "rank 2 (10.0.0.3, eth0
// on host c) -> rank 0 (10.0.0.1:7946): connection refused".
func (w *World) troubles(ranks []int) (r netconn.Report) {
	for _, to := range ranks {
		var tries []netconn.Try
		if u := netconn.Unreached(w.members.of(to).failing); u != nil {
			for _, a := range u.Attempts {
				tries = append(tries, netconn.Try{Own: w.sourceOf(a.At), Address: a.At.String(), Reason: a.Reason()})
			}
		}
		if tries != nil {
			r.Add(w.cfg.Rank, to, w.HostName, tries)
		}
	}
	return r
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
	reports := make([]netconn.Report, w.cfg.Size) // by rank
	reports[self] = w.troubles(bad)
	own := reports[self].Total > 0
	if own {
		w.mesh.BreakOff(self, 0, fmt.Errorf("cannot reach rank %d: %w", bad[0], w.members.of(bad[0]).failing))
	}
	switch {
	case self == 0 && (broken || own):
		w.collect(reports)
	case self != 0 && own:
		w.report(reports[self])
	}
	iface, ports := w.cfg.Source(environ.SettingIface), w.cfg.Source(environ.SettingPorts)
	if listed := netconn.Unreachable(reports, w.HostName, iface, ports); listed != nil {
		err = listed
	}
	if self != 0 && w.mesh.IsBroken() {
		// A launcher takes the first to end for the cause: rank 0 is to say it.
		time.Sleep(reportQuiet + reportQuiet/2)
	}
	return err
}

// report sends what this rank could not reach to rank 0, if that can be reached.
func (w *World) report(pairs netconn.Report) {
	at := w.members.where(0)
	if len(at) == 0 {
		return
	}
	// The transport dials by the name alone. What does not arrive stands in this
	// rank's own error.
	_ = w.members.list.SendReliable(&memberlist.Node{Name: "0", Addr: at[0].Addr().AsSlice(), Port: at[0].Port()},
		strict.Marshal(&report{w.cfg.Rank, pairs}))
}

// collect takes the reports of the other ranks.
func (w *World) collect(reports []netconn.Report) {
	limit := time.After(reportWait)
	for quiet := time.After(reportWait); ; {
		select {
		case r := <-w.members.reports:
			reports[r.Rank], quiet = r.Pairs, time.After(reportQuiet)
			continue
		case <-quiet:
		case <-limit:
		}
		return
	}
}
