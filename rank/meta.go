package rank

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/strict"
)

// meta is the metadata that a rank sends through memberlist, as msgpack, in 512 bytes at most. The port at which it
// listens is part of memberlist's own data.
type meta struct {
	Version int
	Rank    int
	Size    int
	Host    string       // identity of its host
	Name    string       // of its host, for users to read
	Addrs   []netip.Addr // that it offers, the first ones, without zones, which would be its host's
	More    int          // number of further ones: they travel as the state of members
	PID     int          // of its process
	Space   uint64       // namespace of that number, 0: it is not known
}

const (
	metaVersion = 6
	maxHostID   = 64
	maxHostName = 64
	metaAddrs   = 16 // have room in 512 bytes
)

// newMeta describes this rank, except its addresses.
func newMeta(cfg *config) meta {
	id := cfg.hostID
	if id == "" {
		id = fmt.Sprintf("%x", netconn.HostID())
	}
	return meta{Version: metaVersion, Rank: cfg.Rank, Size: cfg.Size, Host: id,
		Name: cfg.Host[:min(len(cfg.Host), maxHostName)], PID: os.Getpid(), Space: pidSpace()}
}

// pidSpace returns the number of this process's namespace of process ids, 0 where the kernel does not report it.
func pidSpace() uint64 {
	link, _ := os.Readlink("/proc/self/ns/pid")
	n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]"), 10, 64)
	return n
}

// splitAddrs returns addresses without zones: those that have room in the metadata, and the others.
func splitAddrs(all []netip.Addr) (first, more []netip.Addr) {
	all = slices.Clone(all)
	for i := range all {
		all[i] = all[i].WithZone("")
	}
	k := min(len(all), metaAddrs)
	return all[:k], all[k:]
}

// decodeMeta reads the metadata of a node.
func decodeMeta(b []byte) (m meta, err error) {
	if len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("metadata of %d bytes, at most %d are possible", len(b), memberlist.MetaMaxSize)
	}
	if err := strict.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("metadata: %w", err)
	}
	switch {
	case m.Version != metaVersion:
		return m, fmt.Errorf("version %d of the metadata, want %d: the ranks come from different versions of treerun",
			m.Version, metaVersion)
	case m.Size < 1 || m.Size > job.MaxRanks || m.Rank < 0 || m.Rank >= m.Size:
		return m, fmt.Errorf("metadata of rank %d of %d", m.Rank, m.Size)
	case m.Host == "" || len(m.Host) > maxHostID:
		return m, fmt.Errorf("host identity of %d bytes, want 1..%d", len(m.Host), maxHostID)
	case m.Name == "" || len(m.Name) > maxHostName:
		return m, fmt.Errorf("host name of %d bytes, want 1..%d", len(m.Name), maxHostName)
	case m.PID < 0:
		return m, fmt.Errorf("process %d", m.PID)
	case len(m.Addrs) == 0 || len(m.Addrs) > metaAddrs:
		return m, fmt.Errorf("%d addresses, want 1..%d", len(m.Addrs), metaAddrs)
	case m.More < 0 || m.More > job.MaxAddresses-len(m.Addrs):
		return m, fmt.Errorf("%d more addresses, want 0..%d", m.More, job.MaxAddresses-len(m.Addrs))
	}
	return m, checkAddrs(m.Addrs)
}

func checkAddrs(all []netip.Addr) error {
	if slices.ContainsFunc(all, func(a netip.Addr) bool { return !netconn.Usable(a) }) {
		return errors.New("invalid addresses")
	}
	return nil
}

// more are addresses by rank: those that have no room in its metadata.
type more map[int][]netip.Addr

// decodeMore reads the state that comes with a list of the ranks of a job of this size. No bytes are none.
func decodeMore(b []byte, size int) (all more, err error) {
	if len(b) > 0 {
		err = strict.Unmarshal(b, &all)
	}
	for r, addrs := range all {
		if err == nil {
			err = checkAddrs(addrs)
		}
		if err == nil && (r < 0 || r >= size || len(addrs) > job.MaxAddresses) {
			err = fmt.Errorf("%d of rank %d of %d", len(addrs), r, size)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("more addresses: %w", err)
	}
	return all, nil
}
