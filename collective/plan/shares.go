package plan

import (
	"math"
	"math/bits"
	"slices"
)

// Cuts returns where the lanes' shares of a message begin and end: lane i has
// what lies from at[i] to at[i+1], in units of 1/2^32 of the message. Where the
// message has parts, the unit is 1/2^32 of a part, and part k begins at k*2^32.
// p must be valid.
//
// The weights become integers once, by steps that are exact on every machine,
// so that all ranks cut at the same places.
func (p *Plan) Cuts() (at []uint64) {
	if len(p.Lanes) == 0 {
		panic("plan: cuts of a plan without lanes")
	}
	at = make([]uint64, 1, len(p.Lanes)+1)
	for from := 0; from < len(p.Lanes); from = len(at) - 1 {
		lanes := p.Lanes[from:]
		if i := slices.IndexFunc(lanes, func(l Lane) bool { return l.Part != lanes[0].Part }); i >= 0 {
			lanes = lanes[:i]
		}
		most, total := 0.0, uint64(0)
		for _, l := range lanes {
			most = max(most, l.Weight)
		}
		for _, l := range lanes {
			total += uint64(math.Ldexp(l.Weight/most, 32)) // at most MaxLanes * 2^32
			at = append(at, total)
		}
		begin := at[from]
		for i, sum := range at[from+1:] {
			hi, lo := bits.Mul64(sum, 1<<32)
			cut, _ := bits.Div64(hi, lo, total)
			at[from+1+i] = begin + cut
		}
	}
	return at
}

// Widths returns the smallest and the largest part of a message that a lane has, in the unit
// of Cuts, which returned at.
func Widths(at []uint64) (narrowest, widest uint64) {
	narrowest = math.MaxUint64
	for i := range at[1:] {
		narrowest, widest = min(narrowest, at[i+1]-at[i]), max(widest, at[i+1]-at[i])
	}
	return narrowest, widest
}

// CutAt returns where cut, a value of Cuts, lies in a message of count
// elements, or of parts of count elements each: at the nearest multiple of
// quantum within the part, or at the part's end. count is >= 0, quantum >= 1.
// Neighbouring lanes meet, and the last one ends where the message does.
func CutAt(count int64, cut uint64, quantum int64) int64 {
	if cut > 1<<32 {
		part := int64(cut>>32) * count
		return part + CutAt(count, cut&(1<<32-1), quantum)
	}
	hi, lo := bits.Mul64(uint64(count), cut)
	at := int64(hi<<32 | lo>>32) // at most count, as cut is at most 2^32
	if at == count {
		return count
	}
	rest := at % quantum
	at -= rest
	if rest < quantum-rest {
		return at
	}
	if at > count-quantum {
		return count
	}
	return at + quantum
}
