package call

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/kernel"
)

// ID names one call. Two ranks make the same call if their IDs are equal.
type ID struct {
	// Seq is the number of the call on its communicator, from 1. Of messages between devices it is the number among
	// those of two ranks in one direction, other messages have none.
	Seq uint64

	Count  uint64 // of elements: of one part where there are parts of equal length, else of all; below 2^48
	Root   int32  // -1 where the collective has no root
	Tag    int32  // of a message
	Parts  uint32 // a digest of the lengths of all parts, where they differ and all ranks know them
	Number uint16 // below Numbers: see FirstOfBuckets
	Kind   Kind
	Op     kernel.Op // 0 where there is none
	DType  kernel.DType
	Chain  uint8 // a digest of all calls up to this one
	Func   bool  // a function of the caller's combines
	Scaled bool  // a Sum of inputs that each rank multiplies by a factor first
	Varied bool  // the parts differ in length
	Device bool  // the call runs on devices: its chunks do not travel over the links of the host
	Sync   bool  // the sender of a message waits for its receipt
}

// Methods with a pointer copy no ID: a copy right after a field was set stalls the processor.

// CountsAtRoot reports whether only the root has the counts of all ranks. Count is then the length of one rank's part,
// and differs between ranks.
func (id *ID) CountsAtRoot() bool { return id.Varied && (id.Kind == Gather || id.Kind == Scatter) }

// CountsByPair reports whether only the two ranks of a part have its length. The Count of a chunk is that of its part.
func (id *ID) CountsByPair() bool { return id.CountsAtRoot() || id.Varied && id.Kind == AllToAll }

// countsEverywhere reports whether all ranks have the counts of all: the header has their digest in place of a root.
func (id *ID) countsEverywhere() bool { return id.Varied && id.Root == -1 && !id.Kind.hasRoot() }

// Bytes returns the length of Count elements.
func (id ID) Bytes() uint64 { return id.Count * uint64(id.DType.Size()) }

// Unit names what Count counts.
func (id *ID) Unit() string {
	if id.DType >= kernel.Opaque && !id.Func {
		return "bytes"
	}
	return "elements"
}

// Name returns the name of the function that makes the call.
func (id ID) Name() string {
	switch {
	case id.Func:
		return id.Kind.String() + "Func"
	case id.Varied:
		return id.Kind.String() + "V"
	case id.Device:
		return id.Kind.String() + "Device"
	}
	return id.Kind.String()
}

// String describes the call for users.
func (id ID) String() string {
	switch k := id.Kind; {
	case k == 0:
		return fmt.Sprintf("call #%d on host memory", id.Seq)
	case k == Message && id.Device:
		return fmt.Sprintf("message #%d on devices (%d %v)", id.Seq, id.Count, id.DType)
	case k == Message:
		return fmt.Sprintf("a message (%d %v, tag %d)", id.Count, id.DType, id.Tag)
	case k == Exchange && id.Device:
		return fmt.Sprintf("the opening of the devices (#%d)", id.Seq)
	case k == Exchange:
		return fmt.Sprintf("sparse collective #%d", id.Seq)
	case k == AllReduceMinLoc || k == AllReduceMaxLoc:
		return fmt.Sprintf("%v #%d (%v)", k, id.Seq, id.DType)
	case k == Look:
		return fmt.Sprintf("the comparison of times before a large call (#%d)", id.Seq)
	case k >= Split && k <= Restore:
		return fmt.Sprintf("%v #%d", k, id.Seq)
	case k == Barrier:
		return fmt.Sprintf("%s #%d", id.Name(), id.Seq)
	}
	return fmt.Sprintf("%s #%d (%s)", id.Name(), id.Seq, id.arguments())
}

// arguments describes the arguments of a collective.
func (id ID) arguments() string {
	var b strings.Builder
	switch {
	case id.Scaled:
		b.WriteString("pre-multiplied sum of ")
	case id.Op != 0:
		fmt.Fprintf(&b, "%v of ", id.Op)
	}
	if !id.CountsByPair() {
		fmt.Fprintf(&b, "%d ", id.Count)
	}
	if id.Func && id.DType >= kernel.Opaque {
		b.WriteString("elements of " + id.DType.Name())
	} else {
		b.WriteString(id.DType.String())
	}
	if id.Root >= 0 {
		fmt.Fprintf(&b, ", root %d", id.Root)
	}
	switch {
	case id.OfBuckets():
		b.WriteString(", of Buckets")
	case id.Number > 0:
		fmt.Fprintf(&b, ", Init %d", id.Number+1)
	}
	return b.String()
}

// Parts of a Header that are no fields of their own.
const (
	device    = 0x40 // in Kind; in Op of a message
	receipt   = 0x20 // in Op of a message that is Sync
	varied    = 0x20 // in Kind
	function  = 99   // the Op of a call with a function of the caller's
	scaledSum = 100  // the Op of a call that is Scaled; an Op above it is the Kind of a call from Exchange on
	opaque    = 128  // an Op above it is the upper half of a DType, of a call without one, besides this bit
	numberAt  = 16   // where in Root the number begins; below it, in place of no root, the inverse of half of Parts
	partsAt   = 48   // where in Count the other half of Parts begins
)

// Numbers is the number of values of ID.Number.
const Numbers = 1 << 15

// FirstOfBuckets is the Number of the first of the buckets that are equal otherwise. Persistent calls that are equal
// otherwise have the Numbers from 0 to that, and a plain call is 0.
const FirstOfBuckets = Numbers / 2

// OfBuckets reports whether id is the AllReduce of a bucket, which matches no call of another kind.
func (id *ID) OfBuckets() bool { return id.Number >= FirstOfBuckets }

// Header encodes id.
func (id ID) Header() (h Header) {
	id.Encode(&h)
	return h
}

// Encode sets h to the Header of id.
func (id *ID) Encode(h *Header) {
	kind, op, root, count := uint8(id.Kind), uint8(id.Op), id.Root, id.Count
	chain, above := id.Chain, uint8(id.DType>>8)
	if id.Kind == Message {
		root, chain = id.Tag, above
		switch {
		case id.Device:
			op = device
		case id.Sync:
			op = receipt
		}
	} else {
		switch {
		case id.Kind >= Exchange && id.Kind <= Restore:
			kind, op = uint8(AllGather), kind
		case above > 0:
			op = opaque | above
		case id.Func:
			op = function
		case id.Scaled:
			op = scaledSum
		}
		if id.Varied {
			kind |= varied
		}
		if id.Device {
			kind |= device
		}
		if id.countsEverywhere() {
			root ^= int32(id.Parts & (1<<numberAt - 1))
			count = count&(1<<partsAt-1) | uint64(id.Parts>>numberAt)<<partsAt
		}
		if id.Number > 0 {
			root = int32(id.Number)<<numberAt | root&(1<<numberAt-1)
		}
	}
	h.Seq, h.Count, h.What = id.Seq, count, What(kind, op, uint8(id.DType), chain, root)
}

// ID decodes h: the Header of the result is h, whatever h contains.
func (h Header) ID() ID {
	kind, op, root := uint8(h.What), uint8(h.What>>8), h.Root()
	id := ID{Seq: h.Seq, Count: h.Count, Root: root, Kind: Kind(kind), Op: kernel.Op(op),
		DType: kernel.DType(h.What >> 16 & 0xFF), Chain: uint8(h.What >> chainAt)}
	if id.Kind == Message {
		id.Root, id.Tag = 0, root
		id.DType, id.Chain = id.DType|kernel.DType(id.Chain)<<8, 0
		if id.Device, id.Sync = op == device, op == receipt; id.Device || id.Sync {
			id.Op = 0
		}
		return id
	}
	id.Kind, id.Varied, id.Device = Kind(kind&^(varied|device)), kind&varied != 0, kind&device != 0
	switch k := Kind(op); {
	case id.Kind == AllGather && k >= Exchange && k <= Restore:
		id.Kind, id.Op = k, 0
	case op > opaque:
		id.DType, id.Func, id.Op = id.DType|kernel.DType(op-opaque)<<8, id.Kind.Reduces(), 0
	case op == function:
		id.Func, id.Op = true, 0
	case op == scaledSum:
		id.Scaled, id.Op = true, kernel.Sum
	}
	n, low := root>>numberAt, root&(1<<numberAt-1)
	if n > 0 {
		id.Number, id.Root = uint16(n), low
	}
	if rootless := !id.Kind.hasRoot(); rootless && id.Varied && (n > 0 || n == -1) {
		id.Root, id.Parts = -1, uint32(low)^(1<<numberAt-1)|uint32(h.Count>>partsAt)<<numberAt
		id.Count &= 1<<partsAt - 1
	} else if rootless && n > 0 && low == 1<<numberAt-1 {
		id.Root = -1
	}
	return id
}
