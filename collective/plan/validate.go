package plan

import (
	"fmt"
	"math"
)

// Limits of a Plan, checked before any of it is used as a size.
const (
	MaxRanks = 1 << 16
	MaxLanes = 1 << 12
)

// Reason is the kind of a VerifyError.
type Reason string

// The reasons for which Verify rejects a Plan.
const (
	BadField     Reason = "bad field"      // a rank, buffer, op or weight that no plan may have
	SharedFIFO   Reason = "shared fifo"    // two tracks at one end of a FIFO
	Deadlock     Reason = "deadlock"       // ranks that wait for each other
	WrongOrder   Reason = "wrong order"    // a chunk where another one was due
	Undefined    Reason = "undefined read" // a buffer read before anything was stored there
	DeadStore    Reason = "dead store"     // a value stored and never used
	Hazard       Reason = "hazard"         // two tracks touch one chunk in no order
	WrongResult  Reason = "wrong result"   // a contribution missing, doubled or too many
	Unstable     Reason = "another order"  // inputs added in another order than VerifyStable requires
	NotOnTheRank Reason = "no such buffer" // a buffer that the kind does not give to the rank
)

// VerifyError describes an error in a Plan and its place. Fields that do not apply are -1.
type VerifyError struct {
	Plan    string // its name
	Reason  Reason
	Lane    int
	Rank    int
	Track   int // index into Lane.Tracks
	Step    int // index into Track.Steps
	InPlace bool
	Text    string
}

// Error returns the place of the error in the plan, and its description.
func (e *VerifyError) Error() string {
	s := fmt.Sprintf("plan %s: %s", e.Plan, e.Reason)
	if e.InPlace {
		s += ", in place"
	}
	if e.Lane >= 0 {
		s += fmt.Sprintf(", lane %d", e.Lane)
	}
	if e.Rank >= 0 {
		s += fmt.Sprintf(", rank %d", e.Rank)
	}
	if e.Step >= 0 {
		s += fmt.Sprintf(" (track %d, step %d)", e.Track, e.Step)
	}
	return s + ": " + e.Text
}

// fail makes the error about a lane, -1: none, and a step of it.
func (p *Plan) fail(lane, track, step int, reason Reason, format string, args ...any) *VerifyError {
	e := &VerifyError{Plan: p.Name, Reason: reason, Lane: lane, Rank: -1, Track: track, Step: step,
		Text: fmt.Sprintf(format, args...)}
	if track >= 0 {
		e.Rank = p.Lanes[lane].Tracks[track].Rank
	}
	return e
}

// Validate makes the checks that need no run of p: ranks, buffers, ops, weights, and that every FIFO has one track at
// each end. The error is a *VerifyError.
func (p *Plan) Validate() error {
	if err := p.validateHead(); err != nil {
		return err
	}
	text := p.checkParts()
	if len(p.Lanes) < 1 || len(p.Lanes) > MaxLanes {
		text = fmt.Sprintf("%d lanes, want 1..%d", len(p.Lanes), MaxLanes)
	}
	if text != "" {
		return p.fail(-1, -1, -1, BadField, "%s", text)
	}
	for i := range p.Lanes {
		if err := p.validateLane(i); err != nil {
			return err
		}
	}
	return nil
}

// validateHead is Validate for the fields before the lanes.
func (p *Plan) validateHead() error {
	text := ""
	switch {
	case !p.Kind.valid():
		text = fmt.Sprintf("%v is no kind of collective", p.Kind)
	case p.Size < 1 || p.Size > MaxRanks:
		text = fmt.Sprintf("%d ranks, want 1..%d", p.Size, MaxRanks)
	case p.Kind.HasRoot() && (p.Root < 0 || p.Root >= p.Size):
		text = fmt.Sprintf("root %d is not a rank of 0..%d", p.Root, p.Size-1)
	case !p.Kind.HasRoot() && p.Root != -1:
		text = fmt.Sprintf("root %d, but %v has none: want -1", p.Root, p.Kind)
	default:
		return nil
	}
	return p.fail(-1, -1, -1, BadField, "%s", text)
}

// checkParts returns why the lanes do not carry the parts of the message, or
// "".
func (p *Plan) checkParts() string {
	due, last := 0, 0
	if p.Kind.lanePerPart() {
		due, last = -1, p.Size-1
	}
	for i, l := range p.Lanes {
		if l.Part < 0 || l.Part > last || l.Part != due && l.Part != due+1 {
			return fmt.Sprintf("lane %d carries part %d: want rising parts 0..%d, none left out", i, l.Part, last)
		}
		due = l.Part
	}
	if due != last {
		return fmt.Sprintf("no lane carries part %d of %d", due+1, p.Size)
	}
	return ""
}

func (p *Plan) validateLane(lane int) error {
	l := &p.Lanes[lane]
	if !(l.Weight > 0) || math.IsInf(l.Weight, 0) {
		return p.fail(lane, -1, -1, BadField, "weight %v, want a finite number > 0", l.Weight)
	}
	if len(l.Tracks) == 0 && (p.Kind != ExScan || p.Size > 1) {
		return p.fail(lane, -1, -1, BadField, "the lane has no tracks")
	}
	role := p.role(lane)
	for t, tr := range l.Tracks {
		if tr.Rank < 0 || tr.Rank >= p.Size {
			return p.fail(lane, -1, -1, BadField, "track %d belongs to rank %d, want 0..%d", t, tr.Rank, p.Size-1)
		}
		if len(tr.Steps) == 0 {
			return p.fail(lane, t, -1, BadField, "track %d has no steps", t)
		}
		for i, s := range tr.Steps {
			if reason, text := p.checkStep(role, tr.Rank, s); text != "" {
				return p.fail(lane, t, i, reason, "%q: %s", s, text)
			}
		}
	}
	fifos, ends := l.FIFOs()
	for t, list := range ends {
		for i, e := range list {
			does, owner, f := "", int32(t), FIFO{}
			if e.In >= 0 && fifos[e.In].Receiver != owner {
				does, f, owner = "receives from %d at %d", fifos[e.In], fifos[e.In].Receiver
			} else if e.Out >= 0 && fifos[e.Out].Sender != owner {
				does, f, owner = "sends from %d to %d", fifos[e.Out], fifos[e.Out].Sender
			}
			if does != "" {
				return p.fail(lane, t, i, SharedFIFO, "%q "+does+", but track %d does so already: a FIFO has one owner at each end",
					l.Tracks[t].Steps[i], f.Src, f.Dst, owner)
			}
		}
	}
	return nil
}

// checkStep returns why rank cannot have step s in a lane with the given role,
// or "".
func (p *Plan) checkStep(role role, rank int, s Step) (Reason, string) {
	if !s.Op.valid() {
		return BadField, fmt.Sprintf("%v is no op", s.Op)
	}
	u := opUses[s.Op]
	for _, end := range []struct {
		name string
		used bool
		rank int32
	}{{"receives from", u.from, s.From}, {"sends to", u.to, s.To}} {
		switch {
		case end.used && (end.rank < 0 || int(end.rank) >= p.Size):
			return BadField, fmt.Sprintf("%s rank %d, want 0..%d", end.name, end.rank, p.Size-1)
		case end.used && int(end.rank) == rank:
			return BadField, fmt.Sprintf("%s the rank itself", end.name)
		}
	}
	switch {
	case !s.Src.valid() || !s.Dst.valid():
		return BadField, fmt.Sprintf("%v or %v is no buffer", s.Src, s.Dst)
	case u != uses{s.Src != None, s.Dst != None, s.From != -1, s.To != -1, u.acc}:
		return BadField, fmt.Sprintf("%v with source %v, destination %v, from %d, to %d: one too many or missing",
			s.Op, s.Src, s.Dst, s.From, s.To)
	case s.Dst == In:
		return BadField, "writes In, which belongs to the caller"
	case role.out >= 0 && rank != role.out && (s.Src == Out || s.Dst == Out):
		return NotOnTheRank, fmt.Sprintf("uses Out, which only %s has (%v)", p.owner(role.out), p.Kind)
	case role.in >= 0 && rank != role.in && s.Src == In:
		return NotOnTheRank, fmt.Sprintf("uses In, which only %s has (%v)", p.owner(role.in), p.Kind)
	case p.Kind == ExScan && rank == 0 && (s.Src == Out || s.Dst == Out):
		return NotOnTheRank, fmt.Sprintf("uses Out, which rank 0 has not (%v)", p.Kind)
	case role.exchange && !(s.Op == Send && s.Src == In || s.Op == Recv && s.Dst == Out || s.Op == Copy && s.Src == In &&
		s.Dst == Out):
		return BadField, fmt.Sprintf("an %v only sends In, receives into Out and copies In to Out", p.Kind)
	}
	return "", ""
}

// owner names the rank which alone has a buffer.
func (p *Plan) owner(rank int) string {
	if p.Kind.HasParts() && rank != p.Root {
		return fmt.Sprintf("rank %d, whose part it is,", rank)
	}
	return fmt.Sprintf("root %d", rank)
}
