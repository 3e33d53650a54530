package call

// Header names the collective call to which a slot's payload belongs. It travels in front of every chunk, so that ranks
// which call different collectives find out instead of mixing their data. All fields are compared.
//
// It consists of words only: a processor that copies bytes together right after they were stored one by one stalls.
type Header struct {
	Seq   uint64 // number of the call on its communicator, from 1
	Count uint64 // elements of the whole call, and half of a digest of counts: see ID.Header
	What  uint64 // see What
}

// What packs the other fields of a Header into a word: a Kind, and bits of ID.Header; a kernel.Op, 0 where there is
// none, or what ID.Header puts there; a kernel.DType; a digest of all calls up to this one; and the root, -1 where the
// collective has none, with the number of a persistent call, or half of a digest of counts; or the tag of a message.
func What(kind, op, dtype, chain uint8, root int32) uint64 {
	return uint64(kind) | uint64(op)<<8 | uint64(dtype)<<16 | uint64(chain)<<chainAt | uint64(uint32(root))<<rootAt
}

// Where in What the digest and the root begin.
const (
	chainAt = 24
	rootAt  = 32
)

// SetChain gives h, which has none, a digest of all calls.
func (h *Header) SetChain(chain uint8) { h.What |= uint64(chain) << chainAt }

// SetRoot sets the root of h.
func (h *Header) SetRoot(root int32) { h.What = h.What&(1<<rootAt-1) | uint64(uint32(root))<<rootAt }

// Root returns the root of h, with the number of a persistent call, or the tag of a message.
func (h *Header) Root() int32 { return int32(h.What >> rootAt) }

// Kind returns the kind of the call.
func (h *Header) Kind() Kind { return Kind(h.What) &^ (varied | device) }

// Words returns the fields of h, which HeaderOf reads.
func (h *Header) Words() [3]uint64 { return [3]uint64{h.Seq, h.Count, h.What} }

// HeaderOf returns the Header with these Words.
func HeaderOf(w [3]uint64) Header { return Header{w[0], w[1], w[2]} }
