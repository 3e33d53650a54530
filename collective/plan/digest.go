package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// Digest identifies the steps of p: 16 hexadecimal digits of the SHA-256 of its kind, size, root and lanes. The name,
// which is for users, is no part of it. It distinguishes plans that differ by accident. Plans that Validate refuses get
// digests too.
func (p *Plan) Digest() string {
	h := sha256.New()
	var b []byte
	put := func(values ...int64) {
		for _, v := range values {
			b = binary.AppendVarint(b, v)
		}
	}
	put(int64(p.Kind), int64(p.Size), int64(p.Root), int64(len(p.Lanes)))
	for _, l := range p.Lanes {
		h.Write(b)
		b = b[:0]
		put(int64(l.Part), int64(math.Float64bits(l.Weight)), int64(len(l.Tracks)))
		for _, t := range l.Tracks {
			put(int64(t.Rank), int64(len(t.Steps)))
			for _, s := range t.Steps {
				put(int64(s.Op), int64(s.Src), int64(s.Dst), int64(s.From), int64(s.To))
			}
		}
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)[:8])
}
