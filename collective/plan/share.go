package plan

// Quantum is the unit, in bytes, of shares and chunks. It keeps every chunk aligned for wide accesses and every element
// whole.
const Quantum = 64

// Share is the range of the message, or of one part of it, that a lane carries.
type Share struct {
	Part       int
	From, UpTo uint64 // within the part, in the unit of Cuts
	Widest     uint64 // the width of the widest lane's share
	First      bool   // the lane carries an empty message, so that it reaches all ranks, too
}

// Shares returns the shares of the lanes of p, which must be valid.
func (p *Plan) Shares() []Share {
	cuts := p.Cuts()
	_, widest := Widths(cuts)
	shares := make([]Share, len(p.Lanes))
	for i := range p.Lanes {
		part := p.Lanes[i].Part
		begin := uint64(part) << 32
		shares[i] = Share{Part: part, From: cuts[i] - begin, UpTo: cuts[i+1] - begin, Widest: widest, First: i == 0}
	}
	return shares
}

// Span is the bytes of a Share in one call, and the chunks that they are cut into.
type Span struct {
	Start, Bytes int // within the part
	Grain        int // bytes per chunk; the last one may be shorter
	Chunks       int
}

// Span returns the span of s in a message, or in parts, of count elements of elem bytes. It is cut as c requires for
// links with slots of slot bytes; if slot is 0 it is one chunk.
func (s *Share) Span(count int64, elem int, c Chunks, slot int) Span {
	unit := int64(max(Quantum/elem, 1))
	var d Span
	d.Start = int(CutAt(count, s.From, unit)) * elem
	d.Bytes = int(CutAt(count, s.UpTo, unit))*elem - d.Start
	if count == 0 && s.First {
		d.Chunks = 1
	}
	grain := d.Bytes
	if slot > 0 {
		grain = c.Of(int64(d.Bytes), s.UpTo-s.From, s.Widest, slot)
		grain = max(grain-grain%elem, elem) // elements of the caller's may be of any size
	}
	d.Cut(grain)
	return d
}

// Cut cuts d into chunks of grain bytes.
func (d *Span) Cut(grain int) {
	d.Grain = grain
	switch {
	case d.Bytes > grain:
		d.Chunks = (d.Bytes + grain - 1) / grain
	case d.Bytes > 0:
		d.Chunks = 1
	}
}

// Chunk returns the place of chunk j within the part, and its length, in bytes.
func (d *Span) Chunk(j int) (at, n int) {
	from := j * d.Grain
	return d.Start + from, min(d.Grain, d.Bytes-from)
}
