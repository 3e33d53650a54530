package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/rank/internal/exchange"
	"github.com/treerun/treerun/topo"
)

// rendezvous brings the ranks of a job together.
type rendezvous struct {
	cfg      *config
	port     *port
	members  *members
	mesh     *exchange.Mesh
	launcher *launcher // nil when there is none
	wait     *waits.Wait
	stop     context.Context // ends with the World's Close
	wg       sync.WaitGroup
}

// connect joins and connects the ranks. ctx ends when a rank has failed, and when this one cannot be a rank of the job:
// its cause is an *exchange.Fault then.
func (v *rendezvous) connect(ctx context.Context) error {
	begin := time.Now()
	within := func(limit time.Duration, step func(ctx context.Context) error) error {
		tooLate := fmt.Errorf("%w: %v have passed", context.DeadlineExceeded, limit)
		ctx, cancel := context.WithTimeoutCause(ctx, limit, tooLate)
		defer cancel()
		return step(ctx)
	}
	limit := v.cfg.parsed.StartTimeout
	join := v.join
	if v.cfg.place != nil { // all addresses are known
		join = func(ctx context.Context) error { return v.port.open(ctx, v.cfg) }
	}
	if err := within(limit, join); err != nil {
		return err
	}
	v.cfg.countHosts(v.members)
	if v.cfg.place != nil {
		v.mesh.Complete()
	}
	if v.members.severalHosts() {
		v.mesh.Heartbeat(v.cfg.parsed.PeerTimeout, v.members.elsewhere)
	}
	// All ranks begin at almost the same time, when their lists are complete,
	// whenever they were started.
	err := within(limit, func(ctx context.Context) error {
		return v.mesh.Connect(ctx, min(limit/4, maxConnect), v.reach)
	})
	if err == nil && v.cfg.place == nil {
		// When this is through, every rank has found all others. In a later epoch the launcher has found them, and a rank
		// that is lost meanwhile ends the next AllGather.
		err = within(limit+reportWait, func(ctx context.Context) error {
			_, err := v.mesh.AllGather(ctx, v.wait, "Init", nil)
			return err
		})
	}
	if err != nil {
		return v.explain(context.Cause(ctx), err)
	}
	v.mesh.Complete()
	if v.cfg.parsed.Verbose && v.cfg.Rank == 0 {
		v.cfg.log.Info("treerun: all ranks have joined", "rank", 0,
			"took", time.Since(begin).Round(100*time.Microsecond),
			"dialed", v.members.dialed.Load(), "taken", v.port.accepted.Load())
	}
	return nil
}

// join returns when this rank knows the addresses of all others.
//
// Every rank exchanges lists with rank 0 once, right after its start. A rank whose list is complete forwards it down a
// binary tree of the ranks, rank 0 first, so that no rank has to repeat its request again and again: a rank dials and
// is dialed O(log n) times, except rank 0, which all the others dial. Requests are repeated, every 50 ms in the end and
// less often in large jobs, only in case a message got lost.
func (v *rendezvous) join(ctx context.Context) error {
	if err := v.port.open(ctx, v.cfg); err != nil {
		return err
	}
	if v.cfg.Rank == 0 && v.launcher != nil {
		if err := v.launcher.send(job.Seed, v.members.entry(0).offered()...); err != nil {
			return err
		}
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	if v.cfg.Rank != 0 {
		v.wg.Go(func() { v.joinSeed(asking) })
	}
	if err := v.allJoined(ctx); err != nil {
		return err
	}
	v.wg.Go(v.forward)
	return nil
}

// allJoined waits until all ranks have joined, and logs from time to time which have not: without a launcher of treerun
// no other process would.
func (v *rendezvous) allJoined(ctx context.Context) error {
	begin := time.Now()
	report := time.NewTicker(v.cfg.waitReport)
	defer report.Stop()
	for {
		select {
		case <-v.members.complete:
			return nil
		case <-ctx.Done():
			if fault := new(exchange.Fault); errors.As(context.Cause(ctx), &fault) {
				return fault
			}
			return v.incomplete(context.Cause(ctx))
		case <-report.C:
			v.reportAbsent(time.Since(begin))
		}
	}
}

// reportAbsent logs in one line which ranks have not joined after the given wait. A rank that has reached rank 0 leaves
// the report to it.
func (v *rendezvous) reportAbsent(waited time.Duration) {
	absent := v.members.absent()
	if len(absent) == 0 || v.cfg.Rank != 0 && absent[0] != 0 {
		return
	}
	met := v.cfg.Rank != 0 && len(v.members.addresses(0)) > 0
	if !met && v.launcher != nil && v.cfg.Page != nil { // that sees it, and why: some ranks may be in a debugger
		return
	}
	attrs := []any{"rank", v.cfg.Rank, "size", v.cfg.Size, "missing_ranks", topo.RankList(absent), "waited",
		waited.Round(10 * time.Millisecond)}
	if v.cfg.Seed != "" {
		attrs = append(attrs, "seed", v.cfg.Seed)
	}
	if absent[0] == 0 && v.cfg.Rank != 0 {
		attrs = append(attrs, "rank_0", v.locateSeed())
	}
	v.cfg.log.Warn("treerun: waiting for ranks that have not joined", attrs...)
}

// locateSeed describes the addresses at which this rank looks for rank 0, and why it was not found there.
func (v *rendezvous) locateSeed() string {
	if t := v.unreachable([]int{0}); t.Total > 0 {
		return t.Pairs[0].Text
	}
	at := v.members.addresses(0)
	if len(at) == 0 {
		return "has not sent its address yet"
	}
	return "is expected at " + numbers.Join(at, ", ")
}

// joinSeed exchanges lists with rank 0 until ctx ends.
func (v *rendezvous) joinSeed(ctx context.Context) {
	seeds := v.port.net.seeds
	if v.cfg.Seed == "" {
		select {
		case seeds = <-v.launcher.seed:
		case <-ctx.Done():
			return
		}
	}
	v.members.mu.Lock()
	v.members.seeds = seeds
	v.members.mu.Unlock()
	size := time.Duration(v.cfg.Size)
	longest := max(50*time.Millisecond, min(size*8*time.Millisecond, 2*time.Second))
	retry := backoff.Retry{Min: 2 * time.Millisecond, Max: longest}
	for more := true; more; more = retry.Pause(ctx) {
		if v.members.join(0) {
			retry.Min = retry.Max // the list will be forwarded
		}
	}
}

// reach opens a connection of the mesh to a rank.
func (v *rendezvous) reach(ctx context.Context, to int) (net.Conn, error) {
	return v.members.reach(ctx, to, dataChannel)
}

// forward exchanges lists with the ranks below this one in the tree.
func (v *rendezvous) forward() {
	for child := 2*v.cfg.Rank + 1; child <= 2*v.cfg.Rank+2 && child < v.cfg.Size; child++ {
		if v.stop.Err() == nil {
			v.members.join(child)
		}
	}
}

// incomplete returns the error for missing ranks.
func (v *rendezvous) incomplete(cause error) error {
	absent := v.members.absent()
	e := &Error{Self: v.cfg.Rank, Rank: -1, Op: "Init"}
	if len(absent) == 1 {
		e.Rank = absent[0]
		e.Err = fmt.Errorf("has not joined: %w", cause)
	} else {
		e.Err = fmt.Errorf("ranks %s of %d have not joined: %w", topo.RankList(absent), v.cfg.Size, cause)
	}
	var lines []string
	for _, p := range v.unreachable(v.members.unreached()).Pairs {
		lines = append(lines, p.Text)
	}
	if text := v.port.net.surplus(v.cfg); len(lines) > 0 && text != "" {
		lines = append(lines, text)
	}
	v.members.mu.Lock()
	defer v.members.mu.Unlock()
	if len(lines) > 0 {
		e.Err = fmt.Errorf("%w:\n  %s", e.Err, strings.Join(lines, "\n  "))
	} else if v.members.lastErr != nil {
		e.Err = fmt.Errorf("%w; the latest attempt: %w", e.Err, v.members.lastErr)
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Hint = "do they run, with the same seed address, job id and key?"
	}
	return e
}
