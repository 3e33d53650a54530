package rank

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/strict"
)

// place is the place of a rank in an epoch that is not the first: the launcher has sent the members with their
// addresses.
type place struct {
	origins      []int    // by rank: the launcher's number
	table        []member // by rank
	lost, joined []int    // origins, since the epoch before
	door         *door
}

// door is where a rank listens in an epoch that it does not know yet.
type door struct {
	net *network
	ln  *net.TCPListener
}

// introduction is a rank's description of itself in job.Renew, as msgpack.
type introduction struct {
	Meta []byte // of rank 0 of 1: the numbers are those of the roster
	Port int
	More []netip.Addr // beyond those of Meta
}

// openDoor begins to listen. Ranks of the next epoch may be on other hosts, although those of this one are on one.
func openDoor(ctx context.Context, cfg *config) (d *door, err error) {
	d = new(door)
	if err = cfg.CheckPorts(cfg.parsed.Ports); err == nil {
		d.net, err = findNetwork(ctx, cfg, cfg.OneHost() && !cfg.OtherHosts)
	}
	if err == nil {
		d.ln, err = listen(d.net.listen, 0, cfg.parsed.Ports, cfg.LocalRank, d.net.seedPort)
	}
	if err != nil {
		return nil, fmt.Errorf("listening for the ranks of the next epoch: %w", err)
	}
	return d, nil
}

// introduce returns the introduction of this rank, encoded.
func (d *door) introduce(cfg *config) ([]byte, error) {
	port, err := netconn.PortOf(d.ln)
	if err != nil {
		return nil, err
	}
	self := newMeta(cfg)
	self.Rank, self.Size = 0, 1
	i := introduction{Port: int(port)}
	self.Addrs, i.More = splitAddrs(d.net.ips())
	self.More = len(i.More)
	i.Meta = strict.Marshal(&self)
	return strict.Marshal(&i), nil
}

// decodeIntroduction reads the introduction of rank r of an epoch of n ranks.
func decodeIntroduction(b []byte, r, n int) (m member, err error) {
	var i introduction
	if len(b) > job.MaxBlob {
		return m, fmt.Errorf("introduction of %d bytes, at most %d are possible", len(b), job.MaxBlob)
	}
	if err := strict.Unmarshal(b, &i); err != nil {
		return m, fmt.Errorf("introduction: %w", err)
	}
	if m.meta, err = decodeMeta(i.Meta); err != nil {
		return m, err
	}
	if i.Port < 1 || i.Port > 65535 || len(i.More) != m.More {
		return m, fmt.Errorf("introduction with port %d and %d of %d more addresses", i.Port, len(i.More), m.More)
	}
	m.Rank, m.Size = r, n
	m.port, m.more = uint16(i.Port), i.More
	return m, checkAddrs(i.More)
}

// in returns the configuration of this process in an epoch.
func (cfg *config) in(r *job.Roster, d *door) (*config, error) {
	n := len(r.Members)
	p := &place{lost: r.Lost, joined: r.Joined, door: d}
	hosts := make([]int, n)
	for i, m := range r.Members {
		known, err := decodeIntroduction(m.Blob, i, n)
		if err != nil {
			return nil, fmt.Errorf("epoch %d: rank %d of the launcher: %w", r.Epoch, m.Origin, err)
		}
		p.origins, p.table = append(p.origins, m.Origin), append(p.table, known)
		hosts[i] = m.Host
	}
	next, j := *cfg, *cfg.Job
	next.Job, next.place = &j, p
	if j.Rank = slices.Index(p.origins, cfg.origin()); j.Rank < 0 {
		return nil, fmt.Errorf("%w for this rank: epoch %d has begun without it", ErrRenew, r.Epoch)
	}
	j.Size, j.Epoch, j.Secret, j.Hosts, j.Joining = n, r.Epoch, r.Secret, hosts, false
	j.LocalRank, j.LocalSize = neighbors(hosts, j.Rank)
	return &next, nil
}

// origins returns the launcher's numbers of the processes, by rank, which they have in all epochs.
func (cfg *config) origins() []int {
	if cfg.place == nil {
		return numbers.Below(cfg.Size)
	}
	return cfg.place.origins
}

// origin returns that of this process.
func (cfg *config) origin() int {
	if cfg.place == nil {
		return cfg.Rank
	}
	return cfg.place.origins[cfg.Rank]
}

// rankOf returns the rank that has the launcher's number origin, -1 if there is none in this epoch.
func (cfg *config) rankOf(origin int) int {
	switch {
	case cfg.place != nil:
		return slices.Index(cfg.place.origins, origin)
	case origin < cfg.Size:
		return origin
	}
	return -1
}
