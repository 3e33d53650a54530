package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/rank/internal/exchange"
	"github.com/treerun/treerun/topo"
)

// join returns when this rank knows the addresses of all others.
//
// Every rank exchanges lists with rank 0 once, right after its start. A rank whose list is complete hands it down a
// binary tree of the ranks, rank 0 first, so that no rank has to repeat its request again and again: a rank dials and
// is dialed O(log n) times, except rank 0, which all the others dial. Requests are repeated, every 50 ms in the end and
// less often in large jobs, only in case a message got lost.
func (w *World) join(ctx context.Context) error {
	if err := w.listen(ctx); err != nil {
		return err
	}
	if w.cfg.Rank == 0 && w.launcher != nil {
		if err := w.launcher.send(job.Seed, w.members.of(0).offered()...); err != nil {
			return err
		}
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.cfg.Rank != 0 {
		w.wg.Go(func() { w.ask(asking) })
	}
	if err := w.allJoined(ctx); err != nil {
		return err
	}
	w.wg.Go(w.handDown)
	return nil
}

// allJoined waits until all ranks have joined, and logs from time to time which have not: without a launcher of treerun
// no other process would.
func (w *World) allJoined(ctx context.Context) error {
	begin := time.Now()
	report := time.NewTicker(w.cfg.waitReport)
	defer report.Stop()
	for {
		select {
		case <-w.members.complete:
			return nil
		case <-ctx.Done():
			if fault := new(exchange.Fault); errors.As(context.Cause(ctx), &fault) {
				return fault
			}
			return w.incomplete(context.Cause(ctx))
		case <-report.C:
			w.reportAbsent(time.Since(begin))
		}
	}
}

// reportAbsent logs in one line which ranks have not joined after the given wait. A rank that has reached rank 0 leaves
// the report to it.
func (w *World) reportAbsent(waited time.Duration) {
	absent := w.members.absent()
	if len(absent) == 0 || w.cfg.Rank != 0 && absent[0] != 0 {
		return
	}
	attrs := []any{"rank", w.cfg.Rank, "size", w.Size(), "missing_ranks", topo.RankList(absent), "waited",
		waited.Round(10 * time.Millisecond)}
	if w.cfg.Seed != "" {
		attrs = append(attrs, "seed", w.cfg.Seed)
	}
	if absent[0] == 0 && w.cfg.Rank != 0 {
		attrs = append(attrs, "rank_0", w.whereIsZero())
	}
	w.cfg.log.Warn("treerun: waiting for ranks that have not joined", attrs...)
}

// whereIsZero describes the addresses at which this rank looks for rank 0, and why it was not found there.
func (w *World) whereIsZero() string {
	if t := w.troubles([]int{0}); t.Total > 0 {
		return t.Pairs[0].Text
	}
	at := w.members.where(0)
	if len(at) == 0 {
		return "has not told yet where it listens"
	}
	return "is expected at " + numbers.Join(at, ", ")
}

// listen opens this rank's port and starts memberlist on it.
func (w *World) listen(ctx context.Context) error {
	cfg := w.cfg
	var err error
	if err = cfg.CheckPorts(cfg.parsed.Ports); err != nil {
		return err
	}
	if w.net, err = findNetwork(ctx, cfg); err != nil {
		return err
	}
	ln, err := listen(w.net.listen, w.net.port, cfg.parsed.Ports, cfg.LocalRank, w.net.taken)
	if err != nil {
		e := &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
		if w.net.port != 0 {
			e.Hint = "rank 0 listens at the seed address; choose a free port with TREERUN_SEED"
		}
		return e
	}
	w.sayAddresses()
	port, err := netconn.PortOf(ln)
	if err != nil {
		ln.Close()
		return &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
	}
	w.streams = newStreams(netip.AddrPortFrom(w.net.offered[0].IP, port), w.members)
	if err := w.members.open(w.streams, w.net, cfg); err != nil {
		ln.Close()
		return err
	}
	w.acceptor = w.accept(ln)
	return nil
}

// sayAddresses logs, once per host and only if verbose, the addresses that the ranks offer.
func (w *World) sayAddresses() {
	if text := w.surplus(); text != "" && w.cfg.LocalRank <= 0 {
		w.cfg.log.Warn("treerun: " + text)
	}
	if !w.cfg.parsed.Verbose || w.cfg.LocalRank > 0 || w.net.offered[0].Kind == iface.Loopback {
		return
	}
	attrs := []any{"host", w.cfg.Host, "rank", w.cfg.Rank, "offered", numbers.Join(w.net.offered, ", ")}
	left := slices.DeleteFunc(slices.Clone(w.net.left), func(a iface.Address) bool { return a.Kind == iface.Loopback })
	if len(left) > 0 {
		attrs = append(attrs, "left out", numbers.Join(left, ", "))
	}
	w.cfg.log.Info("treerun: addresses of this host", attrs...)
}

// ask exchanges lists with rank 0 until the list is complete.
func (w *World) ask(ctx context.Context) {
	seeds := w.net.seeds
	if w.cfg.Seed == "" {
		select {
		case seeds = <-w.launcher.seed:
		case <-ctx.Done():
			return
		}
	}
	w.members.mu.Lock()
	w.members.seeds = seeds
	w.members.mu.Unlock()
	size := time.Duration(w.cfg.Size)
	most := max(50*time.Millisecond, min(size*8*time.Millisecond, 2*time.Second))
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, most) {
		if w.members.join(0) {
			wait = most // the list will be handed down
		}
		select {
		case <-w.members.complete:
			return
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// reach opens a connection of the mesh to a rank.
func (w *World) reach(ctx context.Context, to int) (net.Conn, error) {
	return w.members.reach(ctx, to, dataChannel)
}

// handDown exchanges lists with the ranks below this one in the tree.
func (w *World) handDown() {
	for child := 2*w.cfg.Rank + 1; child <= 2*w.cfg.Rank+2 && child < w.cfg.Size; child++ {
		if w.stop.Err() == nil {
			w.members.join(child)
		}
	}
}

// incomplete returns the error for missing ranks.
func (w *World) incomplete(cause error) error {
	if err := w.acceptor.Failed(); err != nil {
		cause = fmt.Errorf("%w; %w", cause, err)
	}
	absent := w.members.absent()
	e := &Error{Self: w.cfg.Rank, Rank: -1, Op: "Init"}
	if len(absent) == 1 {
		e.Rank = absent[0]
		e.Err = fmt.Errorf("has not joined: %w", cause)
	} else {
		e.Err = fmt.Errorf("ranks %s of %d have not joined: %w", topo.RankList(absent), w.Size(), cause)
	}
	var lines []string
	for _, p := range w.troubles(w.members.failed()).Pairs {
		lines = append(lines, p.Text)
	}
	if text := w.surplus(); len(lines) > 0 && text != "" {
		lines = append(lines, text)
	}
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	if len(lines) > 0 {
		e.Err = fmt.Errorf("%w:\n  %s", e.Err, strings.Join(lines, "\n  "))
	} else if w.members.lastErr != nil {
		e.Err = fmt.Errorf("%w; the latest attempt: %w", e.Err, w.members.lastErr)
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Hint = "do they run, with the same seed address, job id and key?"
	}
	return e
}

// on returns " on host c", for messages about a rank, where ranks are on several hosts.
func (w *World) on(rank int) string {
	if name := w.members.of(rank).Name; name != "" && w.members.severalHosts() {
		return " on host " + name
	}
	return ""
}
