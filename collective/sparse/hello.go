package sparse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/kernel"
)

// hello is what every rank tells the others before a call.
type hello struct {
	call   call
	sample sample
	pairs  uint32 // of this rank
	apart  bool   // its result goes to other memory than where its tensor is
	thin   uint8  // part of the elements of its blocks that is zero, of 255; 0 where nobody has looked
}

// call is what all ranks must have alike.
type call struct {
	what      kind
	dtype     kernel.DType
	op        kernel.Op
	form      Form
	block     uint32
	streams   uint16
	columns   uint16
	count     uint64
	threshold uint64 // its bits
}

// kind is which function was called.
type kind uint8

const (
	allReduce kind = iota + 1
	allReducePairs
	allReduceDevice
	serving     // no call: the rank serves those of the others
	stopServing // the others have no more
	kinds
)

// helloVersion is the first byte of a hello.
const helloVersion = 5

// helloBytes is the size of a hello.
const helloBytes = 36 + sampled/8

// encode returns h as bytes.
func (h *hello) encode() []byte {
	b := make([]byte, 0, helloBytes)
	b = append(b, helloVersion, byte(h.call.what), byte(h.call.dtype), byte(h.call.op), byte(h.call.form), h.thin, 0, 0)
	if h.apart {
		b[6] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, h.call.block)
	b = binary.LittleEndian.AppendUint16(b, h.call.streams)
	b = binary.LittleEndian.AppendUint16(b, h.call.columns)
	b = binary.LittleEndian.AppendUint64(b, h.call.count)
	b = binary.LittleEndian.AppendUint64(b, h.call.threshold)
	b = binary.LittleEndian.AppendUint32(b, h.pairs)
	for _, w := range h.sample {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

var errHello = errors.New("not the greeting of a sparse collective")

// parseHello reads what a rank has told.
func parseHello(b []byte) (h hello, err error) {
	if len(b) != helloBytes || b[0] != helloVersion {
		return h, fmt.Errorf("%w: %d bytes", errHello, len(b))
	}
	h.call = call{
		what: kind(b[1]), dtype: kernel.DType(b[2]), op: kernel.Op(b[3]), form: Form(b[4]),
		block:     binary.LittleEndian.Uint32(b[8:]),
		streams:   binary.LittleEndian.Uint16(b[12:]),
		columns:   binary.LittleEndian.Uint16(b[14:]),
		count:     binary.LittleEndian.Uint64(b[16:]),
		threshold: binary.LittleEndian.Uint64(b[24:]),
	}
	h.pairs = binary.LittleEndian.Uint32(b[32:])
	h.apart = b[6] != 0
	h.thin = b[5]
	for i := range h.sample {
		h.sample[i] = binary.LittleEndian.Uint64(b[36+8*i:])
	}
	c := &h.call
	if c.what < allReduce || c.what >= kinds || !c.dtype.Valid() || !c.op.Valid() || c.form >= formEnd {
		return h, fmt.Errorf("%w: call %d of %d with operation %d in form %d", errHello, c.what, c.dtype, c.op, c.form)
	}
	return h, nil
}

// String names the call for people.
func (c call) String() string {
	switch c.what {
	case serving:
		return "sparse Serve"
	case stopServing:
		return "sparse StopServing"
	}
	var b strings.Builder
	if c.what == allReducePairs {
		fmt.Fprintf(&b, "sparse AllReducePairs (rows of %d %v", c.block, c.dtype)
	} else {
		name := "AllReduce"
		if c.what == allReduceDevice {
			name += "Device"
		}
		fmt.Fprintf(&b, "sparse %s (%v of %d %v in blocks of %d", name, c.op, c.count, c.dtype, c.block)
	}
	if c.form != ByPrice {
		fmt.Fprintf(&b, ", %v", c.form)
	}
	if t := math.Float64frombits(c.threshold); t != 0 {
		fmt.Fprintf(&b, ", threshold %g", t)
	}
	if int(c.streams) != defaultStreams || c.columns != 0 {
		fmt.Fprintf(&b, ", %d streams of %d columns", c.streams, c.columns)
	}
	b.WriteString(")")
	return b.String()
}

// compare returns the rank to blame, and the words, where ranks that do not serve called
// something else: the lowest of those with whom fewest agree. ok: all called the same.
func compare(all []hello) (odd int, words string, ok bool) {
	calls := make(map[call][]int)
	for r := range all {
		if all[r].call.what != serving {
			calls[all[r].call] = append(calls[all[r].call], r)
		}
	}
	switch len(calls) {
	case 0:
		return -1, "all ranks called sparse Serve: none has a tensor", false
	case 1:
		return -1, "", true
	}
	groups := make([][]int, 0, len(calls))
	for _, ranks := range calls {
		groups = append(groups, ranks)
	}
	slices.SortFunc(groups, func(a, b []int) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return a[0] - b[0]
	})
	most, fewest := groups[0], groups[1]
	for _, g := range groups[1:] {
		if len(g) < len(fewest) {
			fewest = g // the groups of a size are by their lowest rank
		}
	}
	if odd = fewest[0]; len(fewest) == len(most) {
		odd = -1 // it could as well be the others
	}
	return odd, fmt.Sprintf("rank %d called %v while rank %d called %v", fewest[0], all[fewest[0]].call, most[0],
		all[most[0]].call), false
}
