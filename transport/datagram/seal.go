package datagram

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A datagram, big endian:
//
//	u8   version
//	u8   kind
//	u16  rank of the sender
//	u32  session: a digest of job, epoch and purpose
//	u64  number of the datagram, of this sender to this receiver, from 1
//	...  the payload, encrypted
//	16   tag of AES-256-GCM over all of it; the nonce is the number
//
// The session only tells what is not meant for this socket from forgeries; what
// keeps strangers out is the key.
const (
	version     = 1
	headerBytes = 16
	tagBytes    = 16
)

// kind says what a payload is.
type kind uint8

const (
	kindData  kind = iota // the caller's
	kindProbe             // of Connect
	kinds
)

// header stands in front of every datagram.
type header struct {
	kind    kind
	from    uint16
	session uint32
	number  uint64
}

func (h *header) put(b []byte) {
	b[0], b[1] = version, byte(h.kind)
	binary.BigEndian.PutUint16(b[2:], h.from)
	binary.BigEndian.PutUint32(b[4:], h.session)
	binary.BigEndian.PutUint64(b[8:], h.number)
}

// Why datagrams are refused.
var (
	errMalformed = errors.New("it is no datagram of this protocol")
	errAlien     = errors.New("it is of another job or communicator, or of no peer")
	errRepeated  = errors.New("it came before, or comes very late")
	errForged    = errors.New("its tag is wrong: whoever sent it does not know the key, or it was changed on the way")
)

// parse reads the header of what came from outside.
func parse(b []byte) (h header, err error) {
	if len(b) < headerBytes+tagBytes || len(b) > MaxDatagram || b[0] != version || kind(b[1]) >= kinds {
		return h, errMalformed
	}
	return header{
		kind: kind(b[1]), from: binary.BigEndian.Uint16(b[2:]),
		session: binary.BigEndian.Uint32(b[4:]), number: binary.BigEndian.Uint64(b[8:]),
	}, nil
}

// nonceOf writes the nonce of the datagram with a number. The key is another one
// for every direction of every pair in every Connect, so none comes twice.
func nonceOf(number uint64) (n [12]byte) {
	binary.BigEndian.PutUint64(n[4:], number)
	return n
}

// sealer is what this rank needs to send to a peer.
type sealer struct {
	aead   cipher.AEAD
	head   header
	number uint64 // of the latest datagram
}

// seal appends the datagram with a payload to to, which has room for it.
func (s *sealer) seal(to []byte, k kind, payload []byte) []byte {
	s.number++
	s.head.kind, s.head.number = k, s.number
	at := len(to)
	to = to[:at+headerBytes]
	s.head.put(to[at:])
	nonce := nonceOf(s.number)
	return s.aead.Seal(to, nonce[:], payload, to[at:at+headerBytes])
}

// opener is what it needs to hear from a peer.
type opener struct {
	aead cipher.AEAD
	seen window
}

// open checks a datagram whose header was parsed and whose sender this is, and
// decrypts its payload in place.
func (o *opener) open(h *header, b []byte) ([]byte, error) {
	if !o.seen.fresh(h.number) {
		return nil, errRepeated
	}
	nonce := nonceOf(h.number)
	payload, err := o.aead.Open(b[headerBytes:headerBytes], nonce[:], b[headerBytes:], b[:headerBytes])
	if err != nil {
		return nil, errForged
	}
	o.seen.take(h.number)
	return payload, nil
}

// windowWords is one more than the words of numbers that may come late.
const windowWords = 65

// window knows which of the latest datagrams have come: 4096 at least, as
// RFC 6479 does it.
type window struct {
	top   uint64 // the highest number
	taken int64  // datagrams
	bits  [windowWords]uint64
}

// fresh reports whether the datagram of a number has not come, as far as is known.
func (w *window) fresh(number uint64) bool {
	switch {
	case number == 0 || number == 1<<64-1:
		return false
	case number > w.top:
		return true
	case w.top-number >= (windowWords-1)*64:
		return false
	}
	return w.bits[number/64%windowWords]>>(number%64)&1 == 0
}

// take notes that it has come. Precondition: it is fresh.
func (w *window) take(number uint64) {
	if number > w.top {
		for word := w.top/64 + 1; word <= number/64 && word <= w.top/64+windowWords; word++ {
			w.bits[word%windowWords] = 0
		}
		w.top = number
	}
	w.bits[number/64%windowWords] |= 1 << (number % 64)
	w.taken++
}

// missing returns how many datagrams were sent that have not come.
func (w *window) missing() int64 { return int64(w.top) - w.taken }

// nonceBytes is the size of what each rank draws for a Connect.
const nonceBytes = 32

// sessionOf names a Connect for those who do not know the key.
func sessionOf(cfg *Config) uint32 {
	digest := sha256.Sum256(fmt.Appendf(nil, "treerun datagram session\x00%s\x00%d\x00%s", cfg.JobID, cfg.Epoch, cfg.Purpose))
	return binary.BigEndian.Uint32(digest[:])
}

// newAEAD derives the key for what one rank sends to another: HKDF-SHA256
// (RFC 5869) over the job's secret, both ranks' random numbers and all that names
// the connection.
func newAEAD(cfg *Config, from, to int, nonces [][nonceBytes]byte) (cipher.AEAD, error) {
	salt := append(append([]byte{}, nonces[from][:]...), nonces[to][:]...)
	info := fmt.Sprintf("treerun datagram %d job %q epoch %d purpose %q from %d to %d", version, cfg.JobID, cfg.Epoch, cfg.Purpose, from, to)
	key, err := hkdf.Key(sha256.New, cfg.Key, salt, info, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
