package plan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Cuts returns where the lanes' shares of a message begin and end: lane i has the range from at[i] to at[i+1], in units
// of 1/2^32 of the message. Where the message has parts, the unit is 1/2^32 of a part, and part k begins at k*2^32. p
// must be valid.
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
// Neighboring lanes meet, and the last one ends where the message does.
func CutAt(count int64, cut uint64, quantum int64) int64 {
	if cut > 1<<32 {
		part := int64(cut>>32) * count
		return part + CutAt(count, cut&(1<<32-1), quantum)
	}
	hi, lo := bits.Mul64(uint64(count), cut)
	at := int64(hi<<32 | lo>>32) // at most count, as cut is at most 2^32
	if at == 0 || at == count {
		return at
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

// Chunks defines how the share of the widest lane of a plan is cut: into four chunks, so that the ranks of a tree
// overlap, but into fewer where these were smaller than Min, and into more where they were larger than Max. Both are in
// bytes and multiples of 64. The other lanes are cut into the same number of chunks, unless these were smaller than
// Min. It is the same on all ranks.
//
// Links pass the chunks of all lanes in turn. With chunks of one size a narrow lane would be
// through long before the others, and then links that only it fills would be idle: on eight
// hosts with one card at 75 % of the rate of the others an AllReduce took 1.16 times as long
// as the network allows, and takes 1.03 times with as many chunks in every lane.
type Chunks struct {
	Max int // 0: a slot of the link
	Min int // 0: MinChunk
}

// MinChunk is the smallest chunk, in bytes, into which a message is cut for pipelining, unless Chunks has another
// limit. Below it the cost of a chunk outweighs the overlap.
const MinChunk = 8 << 10

const maxChunk = 1 << 30

// Check reports chunks of a size that no message is cut into.
func (c Chunks) Check() error {
	for _, bytes := range []int{c.Max, c.Min} {
		if bytes < 0 || bytes > maxChunk || bytes%Quantum != 0 {
			return fmt.Errorf("chunks of %d bytes, want a multiple of %d up to %d", bytes, Quantum, maxChunk)
		}
	}
	return nil
}

// Of returns the size of the chunks, in bytes, of a lane that carries the given number of bytes over links with slots
// of slot bytes. Its part of the message and that of the widest lane are in the unit of Cuts. The last chunk may be
// smaller.
func (c Chunks) Of(bytes int64, lane, widest uint64, slot int) int {
	least, most := MinChunk, slot
	if c.Min > 0 {
		least = c.Min
	}
	if c.Max > 0 {
		most = min(slot, c.Max)
	}
	if lane < widest {
		bytes = scaled(bytes, widest, lane)
	}
	chunk := min(max(int(roundUp((bytes+3)/4)), least), most)
	if lane < widest {
		return max(int(roundUp(scaled(int64(chunk), lane, widest))), min(chunk, least))
	}
	return chunk
}

// scaled is bytes*by/of, at most 2^62, in integer arithmetic, so that all ranks cut in the same places.
func scaled(bytes int64, by, of uint64) int64 {
	const most = 1 << 62
	hi, lo := bits.Mul64(uint64(bytes), by)
	if hi >= of {
		return most
	}
	at, _ := bits.Div64(hi, lo, of)
	return int64(min(at, most))
}

func roundUp(bytes int64) int64 { return (bytes + Quantum - 1) &^ (Quantum - 1) }
