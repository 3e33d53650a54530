package sparse

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
)

// Serve makes this rank an aggregator of c: it takes part in the sparse calls of the other ranks, the workers, adds up
// blocks for them and has no tensor of its own. It returns nil when the workers have called StopServing. Any ranks of c
// may serve, but not all of them.
//
// While ranks serve, sparse calls run in the form Aggregators, and any other form is an ErrArgument on all workers.
// Servers take part only in sparse calls: workers that need other collectives Split c, and a dense call on c itself is
// an ErrMismatch.
//
// A server waits for the next call without a limit: no stall timeout ends this wait.
//
// An error is a RankError, the same on all ranks. Its cause is a worker or a server that was lost, workers whose calls
// differ, or a worker that has closed c without StopServing.
func Serve(ctx context.Context, c *collective.Comm) error {
	s, err := claim(c, "sparse Serve", "")
	if err != nil {
		return err
	}
	defer s.c.End()
	idle := s.inside.Waiter.Watch.Another()
	idle.Limit = 0 // workers may compute for any time
	defer idle.Close()
	for {
		if stopped, err := s.serve(ctx, idle); stopped || err != nil {
			return err
		}
	}
}

// StopServing ends Serve on all ranks of c that serve. All workers call it together. Afterwards all ranks of c may make
// any call.
func StopServing(ctx context.Context, c *collective.Comm) error {
	const name = "sparse StopServing"
	s, err := claim(c, name, "")
	if err != nil {
		return err
	}
	defer s.c.End()
	r := reduction{state: s, call: control(stopServing)}
	if _, err := r.greet(ctx, hello{Call: r.call}); err != nil {
		return err
	}
	if len(r.state.servers) == 0 {
		return r.state.c.ArgumentError(name, "no rank serves")
	}
	return nil
}

// control is the call of a rank that has no tensor.
func control(what kind) call { return call{What: what, DType: kernel.Float32, Op: kernel.Sum} }

// serve serves the workers' next call, and waits for it with idle.
func (s *state) serve(ctx context.Context, idle *waits.Wait) (stopped bool, err error) {
	p := pairs[float32]{reduction: reduction{state: s, call: control(serving)}}
	busy := s.inside.Waiter.Watch
	s.inside.Waiter.Watch = idle
	all, err := p.greet(ctx, hello{Call: p.call})
	s.inside.Waiter.Watch = busy
	if err != nil {
		return false, err
	}
	first := slices.IndexFunc(all, func(h hello) bool { return h.Call.What != serving })
	name := p.name
	p.reduction = newReduction(all[first].Call) // the call of all workers
	p.state, p.name = s, name
	if p.call.What == stopServing {
		return true, nil
	}
	if p.call.What == allReducePairs {
		p.own.Width = int(p.call.Block)
		if err := p.gatherIndices(ctx, all); err != nil {
			return false, err
		}
		if err := p.buildTensor(); err != nil { // the workers get the same error
			return false, nil
		}
	}
	if p.serverConflict() != "" || p.grid.Elements == 0 {
		return false, nil
	}
	p.state.sums = block.Sized(p.state.sums, p.grid.Bytes())
	p.out, p.state.set = p.state.sums, block.NewSet(p.grid.Blocks())
	return false, p.merge(ctx, &p.state.stars)
}

// serverConflict returns the reason why the ranks that serve cannot run the call, or "" if they can or there are none:
// the same on all ranks, which have exchanged their calls.
func (r *reduction) serverConflict() string {
	f, servers := r.form, r.state.servers
	if len(servers) == 0 || f == ByPrice || f == Aggregators {
		return ""
	}
	return fmt.Sprintf("the form %v; ranks that serve (%s) take %v alone", f, topo.RankList(servers), Aggregators)
}

// useServers makes the call run with the ranks that serve, if there are any.
func (r *reduction) useServers() error {
	if why := r.serverConflict(); why != "" {
		return r.state.c.ArgumentError(r.call.String(), "%s", why)
	}
	if len(r.state.servers) > 0 {
		r.form = Aggregators
	}
	return nil
}
