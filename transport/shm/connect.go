package shm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// Connect makes the links of cfg.Layout among its ranks and returns this
// rank's endpoint. All ranks call it at about the same time. It returns an
// error on every rank if any rank has one, and the error lists the ranks that
// failed and why; or when ctx ends. The caller closes the endpoint.
func Connect(ctx context.Context, cfg Config) (*Endpoint, error) {
	if cfg.Exchange == nil {
		return nil, errors.New("shm: no Exchange function")
	}
	c := &connecting{cfg: cfg, fd: -1}
	e, err := c.run(ctx)
	c.release()
	if err != nil {
		return nil, fmt.Errorf("shm: rank %d: connecting %d ranks: %w", cfg.Rank, cfg.Layout.MemberCount(), err)
	}
	return e, nil
}

// report is what a rank tells all others in the first of the two exchanges. In the second it tells
// why it cannot read the others' memory, "" where it can.
type report struct {
	Sample sample            // memory of this rank to try to read
	Bell   string            // name of its doorbell
	Proof  [sha256.Size]byte // that it is a rank's of this job, with this layout
}

// connecting is the state of one Connect.
type connecting struct {
	cfg     Config
	m       *segment.Map
	fd      int        // of the segment, -1 when there is none
	mem     []byte     // its mapping, nil before
	bells   *doorbells // by which the segment comes, and on which ranks sleep where Config says so
	sample  *[secretBytes]byte
	reach   *reach // nil where a rank's memory cannot be read
	noReach string // why
	within  bool   // all members are goroutines of this process
}

func (c *connecting) leads() bool { return c.cfg.Layout.MemberIndex(c.cfg.Rank) == leader }

// run does the two halves, each followed by the exchange that tells every rank
// how it went everywhere.
func (c *connecting) run(ctx context.Context) (*Endpoint, error) {
	first, err := c.prepare()
	all, err := swap(ctx, c, first, err)
	if err != nil {
		return nil, err
	}
	c.within = len(all) > 1 && !slices.ContainsFunc(all, func(r report) bool { return r.Sample.PID != os.Getpid() })
	err = c.share(ctx, all, first.Bell)
	why := ""
	if err == nil {
		why = c.readSamples(all)
	}
	joined := err == nil
	reads, err := swap(ctx, c, why, err)
	if err != nil {
		if joined { // to ranks that have not failed this one has closed
			err = errors.Join(err, c.finish().Close())
		}
		return nil, err
	}
	runtime.KeepAlive(c.sample)
	if i := slices.IndexFunc(reads, func(why string) bool { return why != "" }); i >= 0 {
		c.noReach = fmt.Sprintf("rank %d: %s", c.cfg.Layout.Member(i), strict.Printable(reads[i], maxWhy))
		c.closeReach()
	}
	return c.finish(), nil
}

// maxWhy bounds what is shown of why a rank cannot read another's memory, in bytes.
const maxWhy = 512

// swap tells all members how this one did, and returns what they have to tell.
func swap[T any](ctx context.Context, c *connecting, mine T, failed error) ([]T, error) {
	if errors.Is(failed, syscall.EMFILE) {
		failed = fmt.Errorf("%w (hint: ulimit -n)", failed)
	}
	return strict.Swap(ctx, c.cfg.Exchange, 0, c.cfg.Layout.Member, mine, failed)
}

// share has the leader give the segment to all members, whose reports these are.
func (c *connecting) share(ctx context.Context, all []report, bell string) error {
	if len(all) != c.cfg.Layout.MemberCount() {
		return fmt.Errorf("exchange gave %d blobs for %d ranks", len(all), c.cfg.Layout.MemberCount())
	}
	err := c.check(all)
	if err == nil {
		err = c.bells.meet(&c.cfg.Layout, all)
	}
	switch {
	case err != nil:
	case c.leads():
		err = c.grant(ctx, all)
	default:
		err = c.join(ctx, bell)
	}
	if err == nil && c.m.Bytes <= maxPrefault {
		osys.Prefault(c.mem)
	}
	return err
}

// maxPrefault is up to how large a board every rank makes present before its first call.
const maxPrefault = 4 << 20

// prepare computes the segment's map and opens the doorbell; the leader also makes the segment.
func (c *connecting) prepare() (report, error) {
	if err := c.cfg.validate(); err != nil {
		return report{}, err
	}
	m, err := segment.NewMap(c.cfg.Layout)
	if err != nil {
		return report{}, err
	}
	c.m = m
	r := report{Sample: c.makeSample()}
	if c.bells, r.Bell, err = newDoorbells(); err != nil {
		return report{}, err
	}
	r.Proof = c.proof(joins, c.cfg.Rank, r.Bell)
	if !c.leads() {
		return r, nil
	}
	if c.fd, err = osys.CreateSealed("treerun-"+c.cfg.JobID, m.Bytes, m.Total); err != nil {
		return report{}, err
	}
	c.mem, err = osys.Map(c.fd, 0, m.Bytes)
	return r, err
}

// finish makes the endpoint, which then owns the mapping.
func (c *connecting) finish() *Endpoint {
	if !c.cfg.Doorbell {
		c.bells.close()
		c.bells = nil
	}
	e := newEndpoint(c.m, c.mem, c.cfg.Rank, c.fd, c.bells, osys.Yielder{Within: c.within})
	if e.reach = c.reach; c.reach != nil {
		e.SetReach(c.reach, "")
	} else {
		e.SetReach(nil, c.noReach)
	}
	c.mem, c.fd, c.bells, c.reach = nil, -1, nil, nil
	return e
}

// release gives back what the endpoint did not take over.
func (c *connecting) release() {
	c.closeReach()
	c.bells.close()
	if c.mem != nil {
		_ = osys.Unmap(c.mem)
	}
	if c.fd >= 0 {
		_ = osys.CloseFD(c.fd)
	}
}
