package rank

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/rank/internal/environ"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// When pairs of ranks cannot connect, every rank with such a pair reports the addresses that it tried, and rank 0 makes
// one list of all reports; the errors of the other ranks name their own pairs only.

const (
	reportWait  = 2 * time.Second        // for reports, once one is expected, at most
	reportQuiet = 200 * time.Millisecond // without another one means that all have come
	maxConnect  = 15 * time.Second       // for a rank to be out of reach
)

// troubles returns the obstacles between this rank and the given ones: "rank 2 (10.0.0.3, eth0 on host c) -> rank 0
// (10.0.0.1:7946): connection refused".
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

// sourceOf returns the source of packets from this rank to an address: "10.0.0.3, eth0"; "" when there is no route.
func (w *World) sourceOf(to netip.AddrPort) string {
	ip, err := sourceTowards(to)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(ip.String()+", "+w.net.device(ip), ", ")
}

// surplus names the addresses of this host that its ranks do not offer because there are too many, "" for none.
func (w *World) surplus() string {
	text := iface.Surplus(w.net.left)
	if text != "" {
		text = fmt.Sprintf("the ranks on host %s offer %d of its addresses and leave out %s (hint: %s chooses)", w.cfg.Host,
			len(w.net.offered), text, w.cfg.Source(environ.SettingIface))
	}
	return text
}

// explain returns the error of Init where the ranks have all joined. err is the failure of the next step, and cause is
// why its context has ended, if it has. Where pairs of ranks cannot connect, all ranks learn that, and rank 0 which.
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
		w.mesh.TellPairs(strict.Marshal(&reports[self]))
		w.mesh.BreakOff(self, 0, fmt.Errorf("cannot reach rank %d: %w", bad[0], w.members.of(bad[0]).failing))
	}
	if self == 0 && (broken || own) {
		w.collect(reports)
	}
	iface, ports := w.cfg.Source(environ.SettingIface), w.cfg.Source(environ.SettingPorts)
	if listed := netconn.Unreachable(reports, w.HostName, iface, ports); listed != nil {
		if err = listed; w.surplus() != "" {
			err = fmt.Errorf("%w\n%s", listed, w.surplus())
		}
	}
	if self != 0 && w.mesh.IsBroken() {
		// A launcher takes the first rank to end for the cause: rank 0 must be the first.
		time.Sleep(reportQuiet + reportQuiet/2)
	}
	return err
}

// collect receives the reports of the other ranks.
func (w *World) collect(reports []netconn.Report) {
	limit, quiet := time.After(reportWait), time.After(reportWait)
	for known := 0; ; {
		pairs, changed := w.mesh.Pairs()
		if len(pairs) > known {
			known, quiet = len(pairs), time.After(reportQuiet)
		}
		select {
		case <-changed:
			continue
		case <-quiet:
		case <-limit:
		}
		for r, text := range pairs {
			// A report that cannot be decoded is left out: it is part of that rank's own error.
			reports[r], _ = netconn.DecodeReport([]byte(text), w.cfg.Size)
		}
		return
	}
}
