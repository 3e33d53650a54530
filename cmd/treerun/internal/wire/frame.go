//go:build linux

package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// bodies has one Body of each kind, whose index is the kind. Kind 0 does not exist.
var bodies = []Body{
	nil, new(Join), new(Run), new(Signal), new(Finish), new(Ready), new(Result), new(Started), new(RankMessage),
	new(Ended), new(RanksExited), new(Lost), new(Note), new(Stream), new(Push), new(NodeHello),
	new(Spawn), new(Last), new(Kill), new(Replace), new(Unstarted), new(Look), new(Seen),
	new(Fetch), new(Fetched), new(Suspect),
}

// kindOf returns the kind of a Body.
func kindOf(b Body) byte {
	same := func(other Body) bool { return reflect.TypeOf(other) == reflect.TypeOf(b) }
	return byte(slices.IndexFunc(bodies, same))
}

// newBody returns an empty Body of a kind, to decode into.
func newBody(k byte) Body { return reflect.New(reflect.TypeOf(bodies[k]).Elem()).Interface() }

// All, in place of a host's index, stands for every host.
const All = -1

// Limits of a decoder.
const (
	maxLarge = job.MaxFile + 8<<20 // bytes of a frame with a Join, a Job or a Lost
	maxSmall = 72 << 10            // bytes of any other: those with text of a rank are the longest
	hostSize = 4                   // bytes of the host, before the body
)

// sizes are the valid sizes of frame bodies.
var sizes = make(strict.FrameSizes)

func init() {
	for k := 1; k < len(bodies); k++ {
		limit := maxSmall
		switch bodies[k].(type) {
		case *NodeHello, *Join, *Run, *Lost, *Started, *Ended, *RankMessage, *Look, *Seen, *Fetched:
			limit = maxLarge
		}
		sizes[byte(k)] = [2]int{hostSize, hostSize + limit}
	}
}

// Frame is one message with its sender or its receiver.
type Frame struct {
	Host int // All or an index
	Body Body
}

// Append appends the encoded frame to b. It panics on a value that is no Body. The contents of a body have limits
// elsewhere; a body that is too large nevertheless is refused by its receiver.
func (f *Frame) Append(b []byte) []byte {
	body := strict.Marshal(f.Body)
	b = strict.AppendHead(b, byte(kindOf(f.Body)), hostSize+len(body))
	return append(binary.BigEndian.AppendUint32(b, uint32(int32(f.Host))), body...)
}

// Read reads one frame, as strict.ReadFrame does, and checks it.
func Read(r io.Reader) (*Frame, error) {
	kind, body, err := strict.ReadFrame(r, sizes)
	if err != nil {
		return nil, err
	}
	f := &Frame{Host: int(int32(binary.BigEndian.Uint32(body))), Body: newBody(kind)}
	if f.Host < All || f.Host >= job.MaxRanks {
		return nil, fmt.Errorf("frame for host %d", f.Host)
	}
	if err := strict.Unmarshal(body[hostSize:], f.Body); err != nil {
		return nil, fmt.Errorf("decode frame kind %d: %w", kind, err)
	}
	if c, ok := f.Body.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("frame kind %d: %w", kind, err)
		}
	}
	return f, nil
}

var within = job.Within

func checkRank(r int) error { return within("rank %d", r, 0, job.MaxRanks-1) }
func checkHost(h int) error { return within("host %d", h, 0, job.MaxRanks-1) }
func checkCode(n int) error { return within("exit code or signal: %d", n, 0, 255) }
func checkAttempt(n int) error {
	return within("attempt or epoch %d", n, 0, job.MaxEpoch)
}
func checkName(s string) error {
	return within("bytes of a name or path: %d", len(s), 1, math.MaxInt)
}

func checkTimeout(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("a timeout of %v", d)
	}
	return nil
}

func (n *NodeHello) check() error {
	return errors.Join(within("node %d", n.Node, 1, job.MaxRanks-1),
		within("default of ranks: %d", n.Default, 1, job.MaxRanks), within("ranks %d", n.Size, 0, job.MaxRanks),
		within("ranks of a node %d", n.PerNode, 0, job.MaxRanks),
		within("bytes of a host's name: %d", len(n.Host), 1, 255),
		within("arguments: %d", len(n.Args), 1, math.MaxInt))
}

func (j *Join) check() error {
	below := func(b Below) error { return errors.Join(checkHost(b.Index), checkName(b.Name), checkName(b.Target)) }
	return errors.Join(checkAll(j.Below, below), checkHost(j.Index), checkName(j.Name), checkName(j.Dir),
		checkTimeout(j.PeerTimeout),
		checkTimeout(j.Start.Timeout), within("agents below one: %d", j.Start.FanOut, 1, math.MaxInt))
}

func (j *Run) check() error {
	f := &j.File
	for r, h := range f.Hosts {
		if h < 0 || h > r {
			return fmt.Errorf("rank %d is on host %d", r, h)
		}
		if n := len(j.Machines); n > 0 && h >= n {
			return fmt.Errorf("rank %d is on host %d, but machines has %d entries", r, h, n)
		}
	}
	return errors.Join(within("words of the command: %d", len(j.Args), 1, math.MaxInt),
		within("ranks %d", f.Size, 1, job.MaxRanks),
		within("ranks that have a host: %d", len(f.Hosts), f.Size, f.Size),
		within("version of the job file: %d", f.Version, job.FileVersion, job.FileVersion),
		within("rank %d, which reads stdin", j.Stdin, StdinAll, f.Size-1),
		within("port %d", j.Port, 0, 65535), j.Cores.Check(), j.GPUs.Check(), job.CheckID(f.JobID),
		checkAll(j.Debug, checkRank), within("bytes of memory %d", int(j.Memory), 0, math.MaxInt),
		within("programs: %d", len(j.Parts), 0, job.MaxRanks), checkAll(j.Parts, Part.check))
}

func (s *Signal) check() error { return within("signal %d", int(s.Number), 1, 64) }
func (s *Stream) check() error {
	return errors.Join(checkRank(s.Rank), checkAttempt(s.Attempt), within("stream %d", s.Number, Stdout, Stdin))
}
func (p *Push) check() error {
	return within("bytes of a checksum: %d", len(p.Sum), sha256.Size, sha256.Size)
}

func (r *Ready) check() error {
	return errors.Join(within("port %d", r.Port, 0, 65535), within("cores: %d", r.Cores, 1, math.MaxInt),
		checkName(r.Host))
}

func (s *Started) check() error {
	return errors.Join(within("processes: %d", len(s.PIDs), len(s.Ranks), len(s.Ranks)), checkAll(s.Ranks, checkRank))
}

func (s *RankMessage) check() error {
	bad := errors.Join(checkRank(s.Rank), checkAttempt(s.Attempt))
	if s.Message == nil {
		return bad
	}
	return errors.Join(bad, s.Message.Validate())
}

func (e *Ended) check() error {
	return checkAll(e.Ends, func(e End) error {
		err := errors.Join(checkRank(e.Rank), checkAttempt(e.Attempt), checkCode(e.Code), checkCode(int(e.Signal)))
		if e.Last != nil {
			err = errors.Join(err, e.Last.Check())
		}
		return err
	})
}

func (s *Spawn) check() error {
	return errors.Join(checkRank(s.Rank), checkAttempt(s.Attempt), checkAttempt(s.Epoch))
}

func (r *Replace) check() error { return checkHost(r.Lost) }

func (u *Unstarted) check() error {
	return errors.Join(checkRank(u.Rank), checkAttempt(u.Attempt), checkCode(u.Code))
}

func (k *Kill) check() error { return errors.Join(checkRank(k.Rank), checkAttempt(k.Attempt)) }

func (l *Look) check() error { return checkAll(l.Stacks, checkRank) }

func (s *Seen) check() error {
	for i := range s.Ranks {
		if err := s.Ranks[i].Check(); err != nil {
			return err
		}
	}
	return errors.Join(within("ns of a look: %d", int(s.Took), 0, math.MaxInt),
		within("time %d", int(s.At), 0, math.MaxInt))
}

func (f *Fetch) check() error {
	return errors.Join(checkRank(f.Rank), checkAttempt(f.Attempt),
		within("kind of a Fetch: %d", int(f.What), 0, int(FetchClock)))
}

func (f *Fetched) check() error {
	return errors.Join(within("parts: %d", len(f.Parts), 0, job.MaxRanks), checkAll(f.Parts, func(p Recorded) error {
		err := errors.Join(checkRank(p.Rank), checkAttempt(p.Attempt))
		if p.Head != nil {
			err = errors.Join(err, p.Head.Check())
		}
		return err
	}))
}

func (s *Suspect) check() error { return within("ns of a wait: %d", int(s.For), 0, math.MaxInt) }

func (r *RanksExited) check() error { return within("port %d", r.Port, 0, 65535) }

func (l *Lost) check() error { return checkAll(l.Hosts, checkHost) }

func (r *Result) check() error { return checkCode(r.Code) }

// checkAll returns the first error of check.
func checkAll[T any](list []T, check func(T) error) error {
	if i := slices.IndexFunc(list, func(v T) bool { return check(v) != nil }); i >= 0 {
		return check(list[i])
	}
	return nil
}
