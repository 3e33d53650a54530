package rank

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// unreachable returns the obstacles between this rank and the given ones: "rank 2 (10.0.0.3, eth0 on host c) -> rank 0
// (10.0.0.1:7946): connection refused".
func (v *rendezvous) unreachable(ranks []int) (r netconn.Report) {
	for _, to := range ranks {
		var tries []netconn.Try
		if u := netconn.Unreached(v.members.entry(to).dialErr); u != nil {
			for _, a := range u.Attempts {
				tries = append(tries, netconn.Try{Own: v.port.net.source(a.At), Address: a.At.String(), Reason: a.Reason()})
			}
		}
		if tries != nil {
			r.Add(v.cfg.Rank, to, v.members.hostName, tries)
		}
	}
	return r
}

// explain returns the error of Init where the ranks have all joined. err is the failure of the next step, and cause is
// why its context has ended, if it has. Where pairs of ranks cannot connect, all ranks learn that, and rank 0 which.
func (v *rendezvous) explain(cause, err error) error {
	self := v.cfg.Rank
	broken := v.mesh.IsBroken() // by a rank that cannot connect, or has given up
	switch known := new(exchange.Fault); {
	case broken:
	case errors.As(cause, &known):
		return known
	case v.mesh.Failure() != nil:
		return v.mesh.Failure()
	case errors.Is(cause, context.Canceled):
		return err
	}
	bad := v.members.unreached()
	reports := make([]netconn.Report, v.cfg.Size) // by rank
	reports[self] = v.unreachable(bad)
	own := reports[self].Total > 0
	if own {
		v.mesh.SendPairs(strict.Marshal(&reports[self]))
		v.mesh.AbortGather(self, 0, fmt.Errorf("cannot reach rank %d: %w", bad[0], v.members.entry(bad[0]).dialErr))
	}
	if self == 0 && (broken || own) {
		v.collect(reports)
	}
	iface, ports := v.cfg.Source(environ.SettingIface), v.cfg.Source(environ.SettingPorts)
	if listed := netconn.Unreachable(reports, v.members.hostName, iface, ports); listed != nil {
		if err = listed; v.port.net.surplus(v.cfg) != "" {
			err = fmt.Errorf("%w\n%s", listed, v.port.net.surplus(v.cfg))
		}
	}
	if self != 0 && v.mesh.IsBroken() {
		// A launcher takes the first rank to end for the cause: rank 0 must be the first.
		time.Sleep(reportQuiet + reportQuiet/2)
	}
	return err
}

// collect receives the reports of the other ranks.
func (v *rendezvous) collect(reports []netconn.Report) {
	limit, quiet := time.After(reportWait), time.After(reportWait)
	for known := 0; ; {
		pairs, changed := v.mesh.Pairs()
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
			reports[r], _ = netconn.DecodeReport([]byte(text), v.cfg.Size)
		}
		return
	}
}
