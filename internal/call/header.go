package call

// Header names the collective call to which a slot's payload belongs. It
// travels in front of every chunk, so that ranks which call different
// collectives find out instead of mixing their data. All fields are compared.
type Header struct {
	Seq   uint64 // number of the call on its communicator, from 1
	Count uint64 // elements of the whole call
	Kind  uint8  // a Kind, and bits of ID.Header
	Op    uint8  // a kernel.Op, 0 where there is none, or what ID.Header puts there
	DType uint8  // a kernel.DType
	Chain uint8  // digest of all calls up to this one
	Root  int32  // -1 where the collective has no root; with the number of a persistent call, or the tag of a message
}

// Words returns the fields of h packed into three words, which HeaderOf reads.
func (h Header) Words() [3]uint64 {
	return [3]uint64{h.Seq, h.Count,
		uint64(h.Kind) | uint64(h.Op)<<8 | uint64(h.DType)<<16 | uint64(h.Chain)<<24 | uint64(uint32(h.Root))<<32}
}

// HeaderOf returns the Header that Words has packed.
func HeaderOf(w [3]uint64) Header {
	return Header{Seq: w[0], Count: w[1],
		Kind: uint8(w[2]), Op: uint8(w[2] >> 8), DType: uint8(w[2] >> 16), Chain: uint8(w[2] >> 24),
		Root: int32(uint32(w[2] >> 32))}
}
