package shm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/treerun/treerun/internal/agree"
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

// report is the contribution of a rank to the first of the two exchanges. In the second it sends the reason why it
// cannot read the memory of other ranks, "" where it can.
type report struct {
	Sample sample            // memory of this rank to try to read
	Bell   string            // name of its doorbell
	Proof  [sha256.Size]byte // that it belongs to a rank of this job, with this layout
}

// connecting is the state of one Connect.
type connecting struct {
	cfg     Config
	mac     hash.Hash // of proofs, nil before the first
	m       *segment.Map
	fd      int        // of the segment, -1 when there is none
	mem     []byte     // its mapping, nil before it is mapped
	bells   *doorbells // through which the segment arrives, and on which ranks sleep if Config.Doorbell is set
	sample  *[secretBytes]byte
	reach   *reach // nil if the memory of some rank cannot be read
	noReach string // why reach is nil
	within  bool   // all members are goroutines of this process
}

func (c *connecting) isMaker() bool { return c.cfg.Layout.MemberIndex(c.cfg.Rank) == maker }

// run does the two halves, each followed by the exchange that informs every rank of errors on any rank.
func (c *connecting) run(ctx context.Context) (*Endpoint, error) {
	first, err := c.prepare()
	all, err := exchange(ctx, c, first, err)
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
	reads, err := exchange(ctx, c, why, err)
	if err != nil {
		if joined { // ranks that have not failed see that this one has closed
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

// maxWhy bounds the shown part of the reason why a rank cannot read another's memory, in bytes.
const maxWhy = 512

// exchange sends the result of this rank to all members, and returns theirs.
func exchange[T any](ctx context.Context, c *connecting, mine T, failed error) ([]T, error) {
	if errors.Is(failed, syscall.EMFILE) {
		failed = fmt.Errorf("%w (hint: ulimit -n)", failed)
	}
	return agree.Exchange(ctx, c.cfg.Exchange, 0, c.cfg.Layout.Member, mine, failed)
}

// share sends the segment from its maker to all members, whose reports all holds.
func (c *connecting) share(ctx context.Context, all []report, bell string) error {
	if len(all) != c.cfg.Layout.MemberCount() {
		return fmt.Errorf("exchange gave %d blobs for %d ranks", len(all), c.cfg.Layout.MemberCount())
	}
	err := c.check(all)
	if err == nil {
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Bell
		}
		err = c.bells.setAddresses(&c.cfg.Layout, names)
	}
	switch {
	case err != nil:
	case c.isMaker():
		err = c.grant(ctx, all)
	default:
		err = c.join(ctx, bell)
	}
	if err == nil && c.m.Bytes <= maxPrefault {
		osys.Prefault(c.mem)
	}
	return err
}

// maxPrefault is the size of the largest board that every rank makes present before its first call.
const maxPrefault = 4 << 20

// prepare computes the segment's map and opens the doorbell; the maker also makes the segment.
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
	if !c.isMaker() {
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
	a := newMapping(c.m, c.mem, newRooms(c.m, c.cfg.Rank, c.fd), 0)
	e := newEndpoint(a, c.cfg.Rank, c.bells, c.reach, c.noReach, osys.Yielder{Within: c.within})
	if c.cfg.OwnCores && !c.within {
		e.bell.cores = newCores(e.Endpoint, &c.cfg.Layout, c.cfg.Rank)
	}
	c.mem, c.fd, c.bells, c.reach = nil, -1, nil, nil
	return e
}

// release releases everything that the endpoint did not take over.
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
