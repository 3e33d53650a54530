package rank

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Every connection begins with a mutual challenge and response, HMAC-SHA256
// under a key that only the ranks of the job can derive. The dialing side
// sends a hello, the accepting side answers with its own nonce and a MAC over
// both, the dialing side proves itself with another MAC:
//
//	hello  magic 4 | version 1 | channel 1 | 0 0 | from 4 | to 4 | nonce 16 | attempt 16
//	answer nonce 16 | attempt 16 | MAC("answer", hello, nonce, attempt) 32
//	proof  MAC("proof", hello, nonce, attempt) 32
//	word   1, that the dialing side has been let in
//
// A dialing side that has been quicker at another address of the same rank
// sends MAC("withdraw", hello, nonce, attempt) instead of the proof.
//
// So each side knows the other's rank, and an overheard conversation is worth
// nothing to anybody else, and a stranger is read 80 bytes at most.
//
// Jobs may share secret, id and epoch: those of a launcher that gives no id, and the
// restarts of a LeaderWorkerSet. So rank 0 draws a random number for each attempt, and
// the others learn it from its answer when they join. Who knows another one, or does
// not know it and wants something else than to join, is refused.
const (
	helloMagic   = "trnk"
	helloVersion = 3
	helloBytes   = 32 + attemptBytes
	nonceBytes   = 16
	attemptBytes = 16
	macBytes     = sha256.Size
	answerBytes  = nonceBytes + attemptBytes + macBytes
	welcome      = 'w' // the word
)

// channel says what a connection is for.
type channel uint8

const (
	gossipChannel channel = 1 // a stream of memberlist
	dataChannel   channel = 2 // frames of this package
	statusChannel channel = 3 // one question about what a rank waits for
)

// errStranger is a connection that does not speak the protocol.
var errStranger = errors.New("not a rank of treerun")

// errNoProof is a caller who began well and did not go on.
var errNoProof = errors.New("waiting for the proof")

// errAttempt is a rank that started before rank 0 of this job did, or after.
var errAttempt = fmt.Errorf("%w: it is of another attempt of this job, or of another job with the same id and key", ErrKey)

// attemptID tells the attempts of a job apart; all zeros: not known yet.
type attemptID [attemptBytes]byte

// hello is the first message of a connection.
type hello struct {
	channel  channel
	from, to uint32
	nonce    [nonceBytes]byte
	attempt  attemptID
}

func (h *hello) encode() []byte {
	b := make([]byte, 0, helloBytes)
	b = append(b, helloMagic...)
	b = append(b, helloVersion, byte(h.channel), 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.from)
	b = binary.BigEndian.AppendUint32(b, h.to)
	b = append(b, h.nonce[:]...)
	return append(b, h.attempt[:]...)
}

// decodeHello reads a hello that came to rank self. A rank that thinks that the
// job is larger than it is gets through, to be told so.
func decodeHello(b []byte, self int) (h hello, err error) {
	if len(b) != helloBytes || string(b[:4]) != helloMagic {
		return h, fmt.Errorf("%w: it sent %.12q", errStranger, b)
	}
	if b[4] != helloVersion {
		return h, fmt.Errorf("version %d of the handshake, want %d", b[4], helloVersion)
	}
	h.channel = channel(b[5])
	h.from = binary.BigEndian.Uint32(b[8:])
	h.to = binary.BigEndian.Uint32(b[12:])
	copy(h.nonce[:], b[16:])
	copy(h.attempt[:], b[16+nonceBytes:])
	switch {
	case h.channel < gossipChannel || h.channel > statusChannel || b[6] != 0 || b[7] != 0:
		return h, fmt.Errorf("unknown channel %d", h.channel)
	case h.to != uint32(self):
		return h, fmt.Errorf("meant for rank %d, this is rank %d", h.to, self)
	}
	return h, nil
}

// gate holds what a rank needs to prove itself and to have others do so. It may be
// used concurrently.
type gate struct {
	key        []byte
	self, size int
	attempt    atomic.Pointer[attemptID] // set once, and kept
}

// newGate draws the attempt on rank 0.
func newGate(key []byte, self, size int) *gate {
	g := &gate{key: key, self: self, size: size}
	if self == 0 {
		var id attemptID
		rand.Read(id[:])
		g.attempt.Store(&id)
	}
	return g
}

// thisAttempt returns all zeros while the attempt is not known.
func (g *gate) thisAttempt() (id attemptID) {
	if known := g.attempt.Load(); known != nil {
		id = *known
	}
	return id
}

// learn compares the attempt of a rank that has proved itself with this one's, which
// rank 0 tells.
func (g *gate) learn(from int, id attemptID) error {
	if from == 0 && id != (attemptID{}) {
		g.attempt.CompareAndSwap(nil, &id)
	}
	if id == (attemptID{}) || id != g.thisAttempt() {
		return errAttempt
	}
	return nil
}

// admits says whether a rank may go on that has sent h, if it is who it says.
func (g *gate) admits(h *hello) bool {
	joins := g.self == 0 && h.channel == gossipChannel && h.attempt == attemptID{}
	return joins || h.attempt != attemptID{} && h.attempt == g.thisAttempt()
}

// tagBytes is what tag returns.
const tagBytes = 16

// tag authenticates a datagram as one of this attempt. It is nil while that is not
// known.
func (g *gate) tag(packet []byte) []byte {
	id := g.thisAttempt()
	if id == (attemptID{}) {
		return nil
	}
	return g.mac("datagram", id[:], packet)[:tagBytes]
}

func (g *gate) mac(purpose string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, g.key)
	m.Write([]byte(purpose))
	for _, p := range parts {
		m.Write(p) // of fixed lengths but for the last, so that no two inputs are the same
	}
	return m.Sum(nil)
}

// dial performs the dialing side's part on c: it wants to reach rank to. The
// error is ErrKey when a process of treerun that does not know the key is
// there. The caller sets deadlines.
//
// take is asked before the proof is sent; when it says no, the error is
// errBeaten.
func (g *gate) dial(c io.ReadWriter, to int, ch channel, take func() bool) error {
	h := hello{channel: ch, from: uint32(g.self), to: uint32(to), attempt: g.thisAttempt()}
	rand.Read(h.nonce[:])
	first := h.encode()
	if _, err := c.Write(first); err != nil {
		return fmt.Errorf("sending hello: %w", err)
	}
	var answer [answerBytes]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fmt.Errorf("waiting for the answer to hello: %w", err)
	}
	nonce, mac := answer[:nonceBytes+attemptBytes], answer[nonceBytes+attemptBytes:] // nonce and attempt
	if !hmac.Equal(mac, g.mac("answer", first, nonce)) {
		return ErrKey
	}
	if err := g.learn(to, attemptID(nonce[nonceBytes:])); err != nil {
		return err
	}
	if !take() {
		_, err := c.Write(g.mac("withdraw", first, nonce))
		return errors.Join(errBeaten, err)
	}
	if _, err := c.Write(g.mac("proof", first, nonce)); err != nil {
		return fmt.Errorf("sending the proof: %w", err)
	}
	// Whoever has no time for us just now may have hung up before the proof came.
	var word [1]byte
	if _, err := io.ReadFull(c, word[:]); err != nil {
		return fmt.Errorf("waiting to be let in: %w", err)
	}
	if word[0] != welcome {
		return errStranger
	}
	return nil
}

// accept performs the accepting side's part on c up to the proof, and returns
// who dialed, and what for. The caller sets deadlines, and tells the other side
// that it is let in by letIn.
func (g *gate) accept(c io.ReadWriter) (peer int, ch channel, err error) {
	var first [helloBytes]byte
	if n, err := io.ReadFull(c, first[:]); err != nil {
		if n > 0 && !bytes.HasPrefix(first[:n], []byte(helloMagic)[:min(n, 4)]) {
			err = fmt.Errorf("%w: it sent %.12q", errStranger, first[:n])
		}
		return 0, 0, err
	}
	h, err := decodeHello(first[:], g.self)
	if err != nil {
		return 0, 0, err
	}
	nonce := make([]byte, nonceBytes, answerBytes)
	rand.Read(nonce)
	attempt := g.thisAttempt()
	nonce = append(nonce, attempt[:]...)
	answer := append(nonce, g.mac("answer", first[:], nonce)...)
	if _, err := c.Write(answer); err != nil {
		return 0, 0, fmt.Errorf("answering: %w", err)
	}
	if !g.admits(&h) { // it finds that out by the answer
		return 0, 0, errAttempt
	}
	var proof [macBytes]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errNoProof, err)
	}
	switch {
	case hmac.Equal(proof[:], g.mac("proof", first[:], nonce)):
		return int(h.from), h.channel, nil
	case hmac.Equal(proof[:], g.mac("withdraw", first[:], nonce)):
		return 0, 0, errBeaten
	}
	return 0, 0, ErrKey
}

// letIn is the last word of the accepting side.
func letIn(c io.Writer) error {
	_, err := c.Write([]byte{welcome})
	return err
}
