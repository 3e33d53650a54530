package devices

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/transport"
)

// opening is the state of the ranks' opening of their devices, together and step by step. After each step all ranks
// exchange their results: where one has failed, all give up and free their resources, and the communicator stays
// usable.
type opening struct {
	session *Session
	ctx     context.Context
	w       setup.World
	check   *peers.Check

	all    []hello
	layout *device.Layout
	shared []offering

	slots   []cuda.Addr        // by link: where this rank's device sees them
	network transport.Endpoint // nil where there is no network link
}

// Open opens the device of every rank of a communicator, which is claimed. w is a World of the same ranks, whose
// AllGather is a call of the communicator.
func Open(ctx context.Context, c *setup.Setup, links Links, w setup.World, dev *cuda.Device) (*Session, error) {
	local := sharing(c.Endpoint, c.Size)
	d := &Session{c: c, links: links, Device: dev, calls: calls{device: dev}, waiting: c.Waiter.Watch.Another(),
		block: block{Endpoint: c.Endpoint, local: local, mine: slices.Index(local, c.Rank)}}
	d.log = hostLog{c: c, links: links, block: &d.block, compared: make([]uint64, len(local)),
		sent: make([]uint64, c.Size), received: make([]uint64, c.Size)}
	o := &opening{session: d, ctx: ctx, w: w}
	err := o.run()
	err = errors.Join(err, o.check.Close())
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	if c.Rank == 0 && c.World.Setting("verbose") != "" {
		c.Config.Note(d.explain(o.layout))
	}
	return d, nil
}

func (o *opening) run() error {
	for _, step := range []func() error{o.meet, o.survey, o.tryPeers, o.plan, o.share, o.view, o.attach, o.connect,
		o.start} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// meet sends the description of this rank's device to the other ranks.
func (o *opening) meet() (err error) {
	d, c := o.session, o.session.c
	h := hello{Host: c.World.HostOf(c.Rank), Device: d.Device.UUID(),
		Memory: d.Device.TotalMemory()}
	if setup.InOneProcess(c.World) {
		err = errors.New("ranks of InProcess are goroutines of one process, and device calls need a process per rank: " +
			"start them with treerun")
	} else if err = d.Device.TryStreamMemOps(); errors.Is(err, cuda.ErrNotSupported) {
		err = fmt.Errorf("%w; device calls need it: a driver from 515 on (CUDA 11.7) on Linux has it", err)
	}
	if err == nil {
		d.kernels, err = kernels.Load(d.Device, kernels.Copies)
	}
	if err == nil && c.Size > 1 {
		if o.check, err = peers.NewCheck(o.ctx, d.Device, c.Size); err == nil {
			h.Probe = o.check.Probe
		}
	}
	if o.all, err = exchange(o.ctx, o.w, h, err); err != nil {
		return err
	}
	for r, h := range o.all {
		if h.Memory <= 0 || h.Device == "" {
			return fmt.Errorf("rank %d reported a device %q with %d bytes", r, h.Device, h.Memory)
		}
	}
	return nil
}

// tryPeers determines which devices read which others' memory, by trying it.
func (o *opening) tryPeers() error {
	d := o.session
	why, mine := make([]string, d.c.Size), slices.Repeat([]device.Location{device.Network}, d.c.Size)
	hung := o.ctx.Err()
	for _, r := range d.block.local {
		if r == d.c.Rank || hung != nil {
			continue
		}
		mine[r] = device.InHost
		if o.linked(r, gpu.KindHost) {
			why[r] = "so it was measured"
		} else if err := o.check.Read(o.ctx, &o.all[r].Probe, d.c.Rank); errors.Is(err, peers.ErrHung) {
			hung = fmt.Errorf("%v reads the memory of rank %d (%s): %w; see the hints for peer memory of treerun check, or "+
				"leave one of the two GPUs out (--gpus)", d.Device, r, o.all[r].Device, err)
			d.Device.Abandon()
		} else if err != nil {
			why[r] = err.Error()
		} else {
			mine[r] = device.InDevice
		}
	}
	all, err := exchange(o.ctx, o.w, why, hung)
	if err != nil {
		return err
	}
	for r, location := range mine {
		if location == device.InDevice && o.linked(r, gpu.KindPush) && o.check.Arrived(o.ctx, &o.all[r].Probe, r) == nil {
			mine[r] = device.InReader // as the rank has written there, and that was quicker
		}
	}
	// Now, as the driver waits for streams when memory is freed, and the others'
	// will soon wait for this rank's first call.
	closed := o.check.Close()
	o.check = nil
	if d.Locations, err = exchange(o.ctx, o.w, mine, cmp.Or(o.ctx.Err(), closed)); err == nil {
		err = checkLocations(d.Locations)
	}
	if err != nil {
		return err
	}
	for r, missing := range all {
		for q, why := range missing {
			if why != "" && d.c.Rank == 0 && d.c.World.Setting("verbose") != "" {
				d.c.Config.Note(fmt.Sprintf("treerun: the device of rank %d does not read that "+
					"of rank %d, which goes through host memory: %s\n", r, q, why))
			}
		}
	}
	return nil
}

// plan lets rank 0 choose the plans, and lays out the links that they need.
func (o *opening) plan() error {
	d, c := o.session, o.session.c
	failed := d.Graph.Validate()
	if d.Graph.Ranks != c.Size {
		failed = fmt.Errorf("%w: the graph of devices has %d ranks, the communicator %d", setup.ErrArgument, d.Graph.Ranks,
			c.Size)
	}
	if _, err := exchange(o.ctx, o.w, struct{}{}, failed); err != nil {
		return err
	}
	options := c.Config.Planning
	if g := options.Given; g != nil {
		options.Given = g.Unbound()
		d.Given = options.Given
	}
	mine, err := o.layOut(planner.Machine{Device: true, StagingBytes: stagingBytes(o.all)}, options)
	all, err := exchange(o.ctx, o.w, mine, err)
	if err != nil {
		return err
	}
	return setup.Agreed(o.w, "the plans for devices, and the links", all, func(o string) string { return o })
}

// layOut makes the plans that rank 0 has chosen, and the links for them, and returns a digest of those inputs that must
// be the same on all ranks.
func (o *opening) layOut(m planner.Machine, options planner.Options) (mine string, err error) {
	d := o.session
	if d.Plans, err = setup.PlanTogether(o.ctx, o.w, d.Graph, m, options, Kinds); err != nil {
		return mine, err
	}
	plans, err := plansOf(d.Plans, d.c.Rank)
	if err != nil {
		return mine, err
	}
	slots, slotBytes := d.Plans.Planner.Site.Slots()
	o.layout, err = device.NewLayout(device.Shape{Plans: plans, Slots: slots, SlotBytes: slotBytes,
		Messages: d.Plans.Planner.Site.HasPairs(),
		Location: func(src, dst int) device.Location { return d.Locations[dst][src] }}, d.c.Rank)
	if err != nil {
		return mine, err
	}
	o.layout.Fit(m.StagingBytes)
	digest := sha256.New()
	for _, p := range plans {
		fmt.Fprintln(digest, p.Digest())
	}
	fmt.Fprintln(digest, slots, o.layout.SlotBytes, o.layout.HostBytes, d.Locations)
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// offering describes the memory that a rank shares with the others.
type offering struct {
	Staging peers.Offer
	Block   int // where the block lies in the rank's shared memory, on the first rank that shares it
}

// share allocates the memory that the other ranks use.
func (o *opening) share() (err error) {
	d := o.session
	var mine offering
	d.block.Flags = o.layout.FlagBytes()
	for _, r := range d.block.local {
		d.block.SlotBytes = append(d.block.SlotBytes, o.layout.Owned[device.InHost][r])
	}
	if n := o.layout.Owned[device.InDevice][d.c.Rank]; n > 0 {
		if d.staging, err = peers.AllocBlocks(d.Device, n); err == nil {
			mine.Staging, err = peers.OfferOf(d.Device, d.staging.Addr())
		}
	}
	if err == nil && d.block.mine == 0 {
		mine.Block, err = d.block.alloc()
	}
	o.shared, err = exchange(o.ctx, o.w, mine, err)
	return err
}

// view maps the block of host memory that the ranks of this host share.
func (o *opening) view() error {
	b := &o.session.block
	_, err := exchange(o.ctx, o.w, struct{}{}, b.view(o.shared[b.local[0]].Block))
	if err != nil {
		b.Mem = nil // release would wait there for a rank that does not see it
	}
	return err
}

// attach maps the memory that the other ranks share, as far as the device fills or reads it: host memory that it sees
// is pinned.
func (o *opening) attach() error {
	d := o.session
	_, err := d.block.register(d.Device, 0, d.block.slotsAt(0)) // all but slots
	staging := make([]cuda.Addr, d.c.Size)                      // by rank: where the device sees it
	staging[d.c.Rank] = d.staging.Addr()
	if err == nil {
		o.slots, err = o.layout.Addresses(func(p device.Location, owner, at, n int) (cuda.Addr, error) {
			if p == device.InHost {
				at += d.block.slotsAt(slices.Index(d.block.local, owner))
				return d.block.register(d.Device, at, at+n)
			}
			if staging[owner] == 0 {
				base, m, err := o.shared[owner].Staging.Open(d.Device, o.layout.Owned[device.InDevice][owner])
				if err != nil {
					return 0, fmt.Errorf("staging memory of rank %d: %w", owner, err)
				}
				staging[owner], d.maps = base, append(d.maps, m)
			}
			return staging[owner] + cuda.Addr(at), nil
		})
	}
	_, err = exchange(o.ctx, o.w, struct{}{}, err)
	return err
}

// connect opens the network links.
func (o *opening) connect() error {
	d := o.session
	if !o.layout.UsesNetwork() {
		return nil
	}
	ep, err := d.links.Open(o.ctx, "opening the devices", "devices", transport.Layout{
		Size: d.c.Size, Slots: o.layout.Slots, SlotBytes: o.layout.SlotBytes,
	})
	if err != nil {
		return fmt.Errorf("links through the hosts: %w", err)
	}
	o.network = ep
	return nil
}

// start makes the group, which the streams of calls go through.
func (o *opening) start() error {
	d := o.session
	var err error
	d.group, err = device.New(device.Config{
		Layout: o.layout, Device: d.Device, Kernels: d.kernels, Slots: o.slots,
		Near:  func(rank int) bool { return o.all[rank].Device == o.all[d.c.Rank].Device },
		Flags: d.block.Mem[:d.block.Flags], FlagsAddr: d.block.Addr(),
		Endpoint: o.network, Failed: d.groupFailed, Watch: d.watch,
	})
	if err == nil && d.group.NoStreams != nil && d.c.World.Setting("verbose") != "" {
		d.c.Config.Note(fmt.Sprintf("treerun: rank %d: calls stay on their own streams: %v\n", d.c.Rank,
			d.group.NoStreams))
	}
	_, err = exchange(o.ctx, o.w, struct{}{}, err)
	return err
}

// explain describes, for users, the plans that the devices run.
func (d *Session) explain(l *device.Layout) string {
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	text := fmt.Sprintf("treerun: devices of %d ranks (%s), %d slots of %d bytes per link, %d in host memory; on rank %d "+
		"%.1f MiB of device memory, %.1f MiB of the host's pinned\n", d.c.Size, d.Device.Name(), l.Slots, l.SlotBytes,
		l.HostBytes, d.c.Rank, mib(l.Owned[device.InDevice][d.c.Rank]),
		mib(l.Seen[device.InHost][d.c.Rank]+l.Seen[device.Network][d.c.Rank]))
	if d.c.Size == 1 {
		return text
	}
	for _, kind := range Kinds {
		text += fmt.Sprintf("%vDevice: %s\n", call.Kind(kind), d.Plans.Summary(kind))
	}
	return text
}
