package wire

import (
	"errors"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/job"
)

// What comes from another host is checked. Orders are not, beyond their form: an agent
// believes its launcher, for which it runs programs.
var within = job.Within

func checkRank(r int) error { return within("rank %d", r, 0, job.MaxRanks-1) }
func checkHost(h int) error { return within("host %d", h, 0, job.MaxRanks-1) }
func checkCode(n int) error { return within("exit code or signal: %d", n, 0, 255) }

func (n *Node) check() error {
	return errors.Join(within("node %d", n.Node, 1, job.MaxRanks-1),
		within("default of ranks: %d", n.Default, 1, job.MaxRanks), within("ranks %d", n.Size, 0, job.MaxRanks),
		within("ranks of a node %d", n.PerNode, 0, job.MaxRanks),
		within("bytes of a host's name: %d", len(n.Host), 1, 255),
		within("arguments: %d", len(n.Args), 1, math.MaxInt))
}

func (s *Signal) check() error { return within("signal %d", int(s.Number), 1, 64) }
func (s *Stream) check() error {
	return errors.Join(checkRank(s.Rank), within("stream %d", s.Number, Stdout, Stdin))
}

func (r *Ready) check() error {
	return errors.Join(within("port %d", r.Port, 0, 65535), within("cores: %d", r.Cores, 1, math.MaxInt),
		within("bytes of a host's name: %d", len(r.Host), 1, 255))
}

func (s *Started) check() error {
	return errors.Join(within("processes: %d", len(s.PIDs), len(s.Ranks), len(s.Ranks)), all(s.Ranks, checkRank))
}

func (s *RankMessage) check() error {
	if s.Message == nil {
		return checkRank(s.Rank)
	}
	return errors.Join(checkRank(s.Rank), s.Message.Validate())
}

func (e *Ended) check() error {
	return all(e.Ends, func(e End) error {
		return errors.Join(checkRank(e.Rank), checkCode(e.Code), checkCode(int(e.Signal)))
	})
}

func (l *Lost) check() error { return all(l.Hosts, checkHost) }

func (r *Result) check() error { return checkCode(r.Code) }

// all returns the error of the first that has one.
func all[T any](list []T, check func(T) error) error {
	if i := slices.IndexFunc(list, func(v T) bool { return check(v) != nil }); i >= 0 {
		return check(list[i])
	}
	return nil
}
