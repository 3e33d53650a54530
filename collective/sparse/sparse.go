package sparse

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// AllReduce combines send of all ranks, element by element, with op, which is Sum, Min or Max, and stores the result in
// recv on every rank. send and recv have the same length on all ranks; they may be the same slice, and overlap in no
// other way. All ranks call it together, with the same options.
func AllReduce[T Number](ctx context.Context, c *collective.Comm, send, recv []T, op collective.Op,
	opts ...Option) (Stats, error) {
	const name = "sparse AllReduce"
	in, out := kernel.BytesOf(send), kernel.BytesOf(recv)
	a, b := kernel.SpanOf(in), kernel.SpanOf(out)
	a.Count, b.Count = len(send), len(recv)
	r := newReduction(newCall(allReduce, dtypeOf[T](), op, len(send), opts))
	r.in, r.out, r.inPlace = in, out, a.Overlap(b) == kernel.InPlace
	s, err := claim(c, name, cmp.Or(unlike(a, b), r.call.check()))
	if err != nil {
		return Stats{}, err
	}
	defer s.c.End()
	r.state = s
	err = r.run(ctx, &r)
	return r.stats, err
}

// unlike returns the reason why two buffers cannot be used together, or "" if they can.
func unlike(send, recv kernel.Span) string {
	switch {
	case send.Count != recv.Count:
		return fmt.Sprintf("send has %d elements, recv %d", send.Count, recv.Count)
	case send.Overlap(recv) == kernel.Partial:
		return "send and recv overlap in part; use the same slice or two separate ones"
	}
	return ""
}

// claim begins a call on c, until End, unless wrong describes a fault of the call.
func claim(c *collective.Comm, name, wrong string) (*state, error) {
	if c == nil {
		return nil, comm.None().ArgumentError(name, "")
	}
	inside := comm.Of(c)
	if wrong != "" {
		return nil, inside.Comm.ArgumentError(name, "%s", wrong)
	}
	if err := inside.Comm.Claim(name); err != nil {
		return nil, err
	}
	return stateOf(inside), nil
}

// newReduction returns the initial state of every AllReduce.
func newReduction(c call) reduction {
	return reduction{call: c, form: c.Form, grid: c.grid()}
}

// reduction is an AllReduce in flight.
type reduction struct {
	state   *state
	call    call
	form    Form // form in which the call runs
	grid    block.Grid
	in, out []byte
	inPlace bool
	found   bool      // this rank's blocks are known
	fill    bool      // zeros have to be written to all blocks of out outside the union
	search  *search   // search for this rank's blocks, during the exchange; nil: they are known
	union   block.Set // gets the blocks of the union
	stats   Stats
	name    string // name of the call, with its number
}

// memory is the memory of a call's tensor: of the host, which is a reduction itself, or of a device.
type memory interface {
	look(ctx context.Context, h *hello) error     // finds a sample of the blocks, or all
	price(ctx context.Context, e *estimate) error // corrects the predicted times of the forms
	alone(ctx context.Context) error              // runs the call of one rank
	dense(ctx context.Context) error              // runs the dense plan
	travel(ctx context.Context, f Form) error     // exchanges blocks
}

// run makes a call for a tensor in m.
func (r *reduction) run(ctx context.Context, m memory) error {
	r.stats.Blocks = r.grid.Blocks()
	h := hello{Call: r.call}
	if err := m.look(ctx, &h); err != nil {
		return err
	}
	all, err := r.greet(ctx, h)
	if err != nil {
		return err
	}
	return r.reduce(ctx, m, all)
}

// reduce continues a call with the hellos of all ranks.
func (r *reduction) reduce(ctx context.Context, m memory, all []hello) error {
	if err := r.useServers(); err != nil {
		return err
	}
	switch {
	case r.state.c.Size == 1:
		return m.alone(ctx)
	case r.grid.Elements == 0:
		r.stats.Form = Dense // there is nothing to do
		return nil
	}
	e := r.estimate(all)
	if e.form == ByPrice {
		if err := m.price(ctx, &e); err != nil {
			return err
		}
	}
	e.choose()
	r.stats.Form, r.stats.Predicted = e.form, e.us
	r.report(&e)
	if err := r.trim(e.form); err != nil {
		return err
	}
	if e.form == Dense {
		r.stats.NonZero, r.stats.Union = -1, -1
		r.stats.Density, r.stats.UnionDensity = e.mean, e.union
		return m.dense(ctx)
	}
	return m.travel(ctx, e.form)
}

func (r *reduction) look(_ context.Context, h *hello) error {
	h.Apart = !r.inPlace
	if r.form == ByPrice && r.state.c.Size > 1 {
		h.Sample = draw(r.call.DType, r.grid, r.in)
		if r.state.severalHosts() {
			h.Thin = h.Sample.thinness(r.grid, r.in)
		}
	}
	return nil
}

func (r *reduction) price(context.Context, *estimate) error { return nil }

func (r *reduction) dense(ctx context.Context) error {
	return r.state.inside.Dense(ctx, r.call.DType, r.call.Op, r.in, r.out)
}

// travel runs the call in a form that sends blocks.
func (r *reduction) travel(ctx context.Context, f Form) (err error) {
	if r.union == nil {
		r.state.united = block.Sized(r.state.united, block.Words(r.grid.Blocks()))
		clear(r.state.united)
		r.union = r.state.united
	}
	if !r.found && f != Shared {
		r.search = newSearch(r)
	}
	switch f {
	case Shared:
		err = r.shareMemory(ctx)
	case Aggregators:
		err = r.merge(ctx, &r.state.stars)
	default:
		err = r.merge(ctx, &r.state.trees)
	}
	if err == nil {
		r.zero()
	}
	return err
}

// greet begins the call: it exchanges hellos with the other ranks and returns the hellos of all.
func (r *reduction) greet(ctx context.Context, h hello) ([]hello, error) {
	r.state.tensor++
	r.name = fmt.Sprintf("%v #%d", r.call, r.state.tensor)
	blobs := make([]byte, helloBytes*r.state.c.Size)
	if err := r.state.inside.Gather(ctx, r.name, h.encode(), blobs); err != nil {
		return nil, err
	}
	all := make([]hello, r.state.c.Size)
	for q := range all {
		var err error
		if all[q], err = parseHello(blobs[q*helloBytes : (q+1)*helloBytes]); err != nil {
			return nil, r.state.broken(r.name, fmt.Errorf("from rank %d: %w", q, err))
		}
	}
	if culprit, words, ok := compare(all); !ok {
		return nil, r.state.c.Fault(transport.Fault{Kind: transport.FaultMismatch, Rank: culprit, Text: words},
			r.name)
	}
	var servers []int
	for q := range all {
		if all[q].Call.What == serving {
			servers = append(servers, q)
		}
	}
	if !slices.Equal(servers, r.state.servers) {
		r.state.arrange(servers)
	}
	return all, nil
}

// broken ends the communicator because of err, an error of this rank in a call.
func (s *state) broken(during string, err error) error {
	f := transport.Faultf(transport.FaultLink, s.c.Rank, "rank %d in %s: %v", s.c.Rank, during, err)
	return s.c.Fault(f, during)
}

// alone runs the call of a communicator of one rank: the result is its input.
func (r *reduction) alone(context.Context) error {
	if !r.found {
		newSearch(r).all()
	}
	r.stats.Union, r.stats.UnionDensity = r.stats.NonZero, r.stats.Density
	if !r.inPlace {
		copy(r.out, r.in)
	}
	return nil
}

// part returns n/all, 0 if all is 0.
func part(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}
