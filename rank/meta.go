package rank

import (
	"fmt"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// meta is what a rank tells about itself through memberlist, as msgpack. At
// which port it listens, memberlist knows.
type meta struct {
	Version int
	Rank    int
	Size    int
	Host    string // identity of its host
	Name    string // of its host, for people
	Addrs   []byte // that it offers; packAddresses
	PID     int    // of its process
	Space   uint64 // namespace of that number, 0: it is not known
}

const (
	metaVersion = 3
	maxHostID   = 64
	maxHostName = 64
)

func (m *meta) encode() []byte {
	raw, err := msgpack.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("rank: encoding metadata: %v", err)) // plain fields
	}
	return raw
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
	}
	if m.PID < 0 {
		return m, fmt.Errorf("process %d", m.PID)
	}
	_, err = unpackAddresses(m.Addrs)
	return m, err
}
