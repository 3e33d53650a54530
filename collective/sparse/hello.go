package sparse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/kernel"
)

// hello is the message that every rank sends to the others before a call. It is encoded by encoding/binary, after
// helloVersion.
type hello struct {
	Call   call
	Sample sample
	Pairs  uint32 // number of pairs of this rank
	Apart  bool   // its result is written to other memory than its tensor
	Thin   uint8  // part of the elements of its blocks that is zero, of 255; 0 if not sampled
}

// call contains the arguments that must be the same on all ranks.
type call struct {
	What  kind
	DType kernel.DType
	Op    kernel.Op
	Form  Form
	Block int64 // elements
	Count int64 // elements
}

// kind is the function that was called.
type kind uint8

const (
	allReduce kind = iota + 1
	allReducePairs
	allReduceDevice
	serving     // no call: the rank serves the calls of the others
	stopServing // the others have no more
	kinds
)

// helloVersion is the first byte of a hello.
const helloVersion = 10

// helloBytes is the size of a hello.
var helloBytes = 1 + binary.Size(hello{})

// encode returns h as bytes.
func (h *hello) encode() []byte {
	b, err := binary.Append([]byte{helloVersion}, binary.LittleEndian, h)
	if err != nil {
		panic(err) // a hello has only fields of fixed sizes
	}
	return b
}

var errHello = errors.New("not the greeting of a sparse collective")

// parseHello decodes the hello of a rank.
func parseHello(b []byte) (h hello, err error) {
	if len(b) != helloBytes || b[0] != helloVersion {
		return h, fmt.Errorf("%w: %d bytes", errHello, len(b))
	}
	if _, err := binary.Decode(b[1:], binary.LittleEndian, &h); err != nil {
		return h, fmt.Errorf("%w: %w", errHello, err)
	}
	c := &h.Call
	if c.What < allReduce || c.What >= kinds || !c.DType.Valid() || !c.Op.Valid() || c.Form >= formEnd {
		return h, fmt.Errorf("%w: call %d of %d with operation %d in form %d", errHello, c.What, c.DType, c.Op, c.Form)
	}
	if why := c.check(); c.What < serving && why != "" {
		return h, fmt.Errorf("%w: %s", errHello, why)
	}
	return h, nil
}

// String names the call for people.
func (c call) String() string {
	switch c.What {
	case serving:
		return "sparse Serve"
	case stopServing:
		return "sparse StopServing"
	}
	var b strings.Builder
	if c.What == allReducePairs {
		fmt.Fprintf(&b, "sparse AllReducePairs (rows of %d %v", c.Block, c.DType)
	} else {
		name := "AllReduce"
		if c.What == allReduceDevice {
			name += "Device"
		}
		fmt.Fprintf(&b, "sparse %s (%v of %d %v in blocks of %d", name, c.Op, c.Count, c.DType, c.Block)
	}
	if c.Form != ByPrice {
		fmt.Fprintf(&b, ", %v", c.Form)
	}
	b.WriteString(")")
	return b.String()
}

// compare checks that all ranks that do not serve made the same call, and reports this as ok. If not, it returns the
// rank at fault, the lowest of those whose call the fewest ranks made, and the text of the error.
func compare(all []hello) (culprit int, words string, ok bool) {
	agree := make(map[call]int) // number of ranks that make the call
	var workers []int
	for r := range all {
		if c := all[r].Call; c.What != serving {
			agree[c]++
			workers = append(workers, r)
		}
	}
	if len(workers) == 0 {
		return -1, "all ranks called sparse Serve: none has a tensor", false
	}
	byAgreement := func(a, b int) int { return agree[all[a].Call] - agree[all[b].Call] }
	most := slices.MaxFunc(workers, byAgreement)
	others := slices.DeleteFunc(workers, func(r int) bool { return all[r].Call == all[most].Call })
	if len(others) == 0 {
		return -1, "", true
	}
	fewest := slices.MinFunc(others, byAgreement)
	if culprit = fewest; byAgreement(fewest, most) == 0 {
		culprit = -1 // the others might as well be at fault
	}
	return culprit, fmt.Sprintf("rank %d called %v while rank %d called %v", fewest, all[fewest].Call, most,
		all[most].Call), false
}
