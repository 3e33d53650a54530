package setup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// SubWorld is the World of some ranks of a communicator's World, for a communicator that is made of that one, or for
// links that it opens.
type SubWorld struct {
	Call    string // the call that makes the communicator
	Name    string // the name of the communicator
	Members []int  // ranks of the communicator that it is made of, by the SubWorld's

	// Gather gives every member the bytes of all, by rank: all have as many. It is nil once the communicator is made.
	Gather func(ctx context.Context, mine, all []byte) error

	job   World // the World whose ranks these are
	ranks []int // the ranks of the job, by the SubWorld's
	hosts []int // the hosts, by rank
	rank  int
	id    string
}

// number returns a number that no other SubWorld of the job has.
func (w *SubWorld) number() uint64 {
	digest := sha256.Sum256([]byte(w.id))
	return binary.LittleEndian.Uint64(digest[:])
}

// NewSubWorld returns the World of members, ranks of w, in their order, including this one. The string what
// distinguishes it from other SubWorlds of w.
func NewSubWorld(w World, what string, members []int) *SubWorld {
	job, _ := inJob(w, 0)
	digest := sha256.Sum256([]byte(w.JobID() + " " + what))
	s := &SubWorld{Members: members, job: job, rank: slices.Index(members, w.Rank()),
		id: fmt.Sprintf("%s-%x", job.JobID(), digest[:16])}
	numbers := make(map[int]int)
	for _, r := range members {
		h := w.HostOf(r)
		if _, known := numbers[h]; !known {
			numbers[h] = len(numbers)
		}
		s.hosts = append(s.hosts, numbers[h])
		_, r = inJob(w, r)
		s.ranks = append(s.ranks, r)
	}
	return s
}

// Rank returns this rank, by its number in w.
func (w *SubWorld) Rank() int { return w.rank }

// Size returns the number of ranks.
func (w *SubWorld) Size() int { return len(w.ranks) }

// HostOf returns the host of a rank. Hosts are numbered in the order of the ranks.
func (w *SubWorld) HostOf(r int) int { return w.hosts[r] }

// JobID returns an id that no other World has, as long as those of all SubWorlds of the job.
func (w *SubWorld) JobID() string { return w.id }

// Failed returns a channel that is closed when any rank of the job has failed.
func (w *SubWorld) Failed() <-chan struct{} { return w.job.Failed() }

// Failure returns the rank that has failed, -1 for one that is no member.
func (w *SubWorld) Failure() (int, error) {
	r, err := w.job.Failure()
	if err != nil && r >= 0 {
		err = fmt.Errorf("rank %d of %s: %w", r, FirstName, err)
	}
	return slices.Index(w.ranks, r), err
}

// DeriveKey returns a key of the ranks of the job, which is different for each World and purpose.
func (w *SubWorld) DeriveKey(purpose string) []byte {
	return w.job.DeriveKey("group " + w.id + " " + purpose)
}

// Setting returns the job's setting. A plan is for all ranks of the job.
func (w *SubWorld) Setting(name string) string {
	if name == settingPlan {
		return ""
	}
	return w.job.Setting(name)
}

// firstPart is the number of bytes of a blob that go with its length: nearly all blobs of a Split are shorter.
const firstPart = 504

// AllGather gives every rank the blobs of all, by a gather of parts of one length: of the blobs' lengths and
// beginnings. If one is longer, a second gather brings the rests.
func (w *SubWorld) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	const part = 8 + firstPart
	ranks := len(w.ranks)
	mine, all := make([]byte, part), make([]byte, part*ranks)
	binary.LittleEndian.PutUint64(mine, uint64(len(blob)))
	sent := copy(mine[8:], blob)
	if err := w.Gather(ctx, mine, all); err != nil {
		return nil, err
	}
	lengths, err := readLengths(all, part, ranks)
	if err != nil {
		return nil, err
	}
	rest := max(0, slices.Max(lengths)-firstPart)
	rests := make([]byte, rest*ranks)
	if rest > 0 {
		mine = make([]byte, rest)
		copy(mine, blob[sent:])
		if err := w.Gather(ctx, mine, rests); err != nil {
			return nil, err
		}
	}
	out := make([][]byte, ranks)
	for r, n := range lengths {
		out[r] = all[r*part+8:][:min(n, firstPart):min(n, firstPart)]
		if n > firstPart {
			out[r] = append(out[r], rests[r*rest:][:n-firstPart]...)
		}
	}
	return out, nil
}

// maxBlob is the size limit of the messages in which ranks make a communicator, or open its links or devices.
const maxBlob = 64 << 20

// readLengths returns how long the ranks' blobs are, each within bounds, as the parts of b begin with.
func readLengths(b []byte, part, ranks int) ([]int, error) {
	if len(b) != part*ranks {
		return nil, fmt.Errorf("%d bytes with lengths for %d ranks", len(b), ranks)
	}
	lengths := make([]int, ranks)
	for r := range lengths {
		n := binary.LittleEndian.Uint64(b[part*r:])
		if n > uint64(maxBlob/ranks) {
			return nil, fmt.Errorf("rank %d announces a blob of %d bytes", r, n)
		}
		lengths[r] = int(n)
	}
	return lengths, nil
}

// inJob returns the World of the job that w, or a part of which w, is, and the number there of rank r of w.
func inJob(w World, r int) (World, int) {
	if sub, is := w.(*SubWorld); is {
		return sub.job, sub.ranks[r]
	}
	return w, r
}

// networkOf returns how the hosts of w's ranks are reached, false where the job's World does not know.
func networkOf(w World) (Networked, bool) {
	job, _ := inJob(w, 0)
	n, is := job.(Networked)
	if sub, of := w.(*SubWorld); is && of {
		return subNetwork{n, sub.ranks}, true
	}
	return n, is
}

// subNetwork is the Networked of some ranks of a job.
type subNetwork struct {
	Networked
	ranks []int
}

func (n subNetwork) HostName(r int) string { return n.Networked.HostName(n.ranks[r]) }

// Left reports whether a rank of w has closed the job's World in good order: it is in no call any more. It is false for
// all ranks of a World that does not know.
func Left(w World, r int) bool {
	job, r := inJob(w, r)
	known, is := job.(interface{ Left(rank int) bool })
	return is && known.Left(r)
}

// Gone reports whether a rank of w has ended: whether it has closed the job's World, or has failed, not as the first
// one either. It is false for all ranks of a World that does not know.
func Gone(w World, r int) bool {
	job, r := inJob(w, r)
	known, is := job.(interface{ Gone(rank int) bool })
	return is && known.Gone(r)
}

// numberOf returns the number of a rank of w for users: in a SubWorld, that in the communicator it is made of.
func numberOf(w World, rank int) int {
	if sub, is := w.(*SubWorld); is {
		return sub.Members[rank]
	}
	return rank
}

// callOf names the call that makes a communicator of w, on this rank.
func callOf(w World) string {
	call := "New"
	if sub, is := w.(*SubWorld); is {
		call = sub.Call
	}
	return fmt.Sprintf("%s on rank %d", call, numberOf(w, w.Rank()))
}
