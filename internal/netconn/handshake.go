package netconn

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Every connection begins with a mutual challenge and response. All messages
// have a fixed size, and a stranger is read 96 bytes at most.
//
//	dialer -> acceptor  hello    magic 4 | version 1 | flags 1 | stream 2 | from 4 | to 4 |
//	                             epoch 4 | purpose 4 | job 8 | nonce 32
//	acceptor -> dialer  answer   nonce 32 | MAC("answer") 32
//	dialer -> acceptor  verdict  MAC("take") 32, or MAC("leave") when another path was faster
//	acceptor -> dialer  welcome  MAC("welcome") 32
//
// A MAC is HMAC-SHA256 over its label, the whole hello and the acceptor's
// nonce, under a key that HKDF derives from the job's key, its id, the epoch
// and the purpose. So each side knows the other's rank, no message can stand
// for another one or be sent back to its sender, and what was overheard is
// worth nothing on any other connection. Job, epoch and purpose are in the
// hello only so that whoever has the wrong ones is told apart.
//
// With Encrypt, a TLS handshake follows the verdict; a MAC("seal") of the
// dialer and the welcome go over TLS, and cover a value that only the two ends
// of this TLS session know (RFC 9266). So the ranks that proved themselves are
// the ends of the session.
const (
	helloMagic   = "tpee"
	helloVersion = 1
	nonceBytes   = 32
	macBytes     = sha256.Size
	helloBytes   = 32 + nonceBytes
	answerBytes  = nonceBytes + macBytes
	flagEncrypt  = 1
)

// ErrKey is the error of a peer that does not know the key of this job.
var ErrKey = errors.New("the process there does not know the key of this job")

// errStranger is a connection that does not speak the protocol.
var errStranger = errors.New("it does not speak treerun's protocol")

// errSilent is a connection that ended before it said anything.
var errSilent = errors.New("it hung up without a word")

// errNoProof is a connection that began well and did not go on.
var errNoProof = errors.New("waiting for its proof")

type nonce [nonceBytes]byte

func newNonce() (n nonce) {
	rand.Read(n[:]) // never fails
	return n
}

// session is what all connections of one Connect have in common. It is never
// changed.
type session struct {
	key     []byte
	epoch   uint32
	purpose [4]byte
	job     [8]byte
	encrypt bool
}

// newSession derives the keys of one Connect.
func newSession(cfg *Config) (*session, error) {
	s := &session{epoch: uint32(cfg.Epoch), encrypt: cfg.Encrypt}
	digest := sha256.Sum256([]byte("treerun peer purpose\x00" + cfg.Purpose))
	copy(s.purpose[:], digest[:])
	digest = sha256.Sum256([]byte("treerun peer job\x00" + cfg.JobID))
	copy(s.job[:], digest[:])
	var err error
	s.key, err = deriveKey(cfg, "handshake")
	return s, err
}

// deriveKey returns 32 bytes that only holders of the job's key can know, good
// for one use in one epoch and purpose: HKDF-SHA256 (RFC 5869).
func deriveKey(cfg *Config, use string) ([]byte, error) {
	info := fmt.Sprintf("treerun peer %d %s epoch %d %s", helloVersion, use, cfg.Epoch, cfg.Purpose)
	return hkdf.Key(sha256.New, cfg.Key, []byte(cfg.JobID), info, sha256.Size)
}

// hello is the first message of a connection.
type hello struct {
	encrypt  bool
	stream   uint16
	from, to uint32
	epoch    uint32
	purpose  [4]byte
	job      [8]byte
	nonce    nonce
}

func (h *hello) encode() (b [helloBytes]byte) {
	copy(b[:], helloMagic)
	b[4] = helloVersion
	if h.encrypt {
		b[5] = flagEncrypt
	}
	binary.BigEndian.PutUint16(b[6:], h.stream)
	binary.BigEndian.PutUint32(b[8:], h.from)
	binary.BigEndian.PutUint32(b[12:], h.to)
	binary.BigEndian.PutUint32(b[16:], h.epoch)
	copy(b[20:], h.purpose[:])
	copy(b[24:], h.job[:])
	copy(b[32:], h.nonce[:])
	return b
}

func decodeHello(b []byte) (h hello, err error) {
	switch {
	case len(b) != helloBytes || string(b[:4]) != helloMagic:
		return h, fmt.Errorf("%w: it sent %.12q", errStranger, b)
	case b[4] != helloVersion:
		return h, fmt.Errorf("its handshake has version %d, this one is %d (hint: all ranks must run the same build)", b[4], helloVersion)
	case b[5]&^flagEncrypt != 0:
		return h, fmt.Errorf("unknown flags %#x in its hello", b[5])
	}
	h.encrypt = b[5] == flagEncrypt
	h.stream = binary.BigEndian.Uint16(b[6:])
	h.from = binary.BigEndian.Uint32(b[8:])
	h.to = binary.BigEndian.Uint32(b[12:])
	h.epoch = binary.BigEndian.Uint32(b[16:])
	copy(h.purpose[:], b[20:])
	copy(h.job[:], b[24:])
	copy(h.nonce[:], b[32:])
	return h, nil
}

// hello returns the hello of stream number stream from one rank to another.
func (s *session) hello(from, to, stream int) hello {
	return hello{
		encrypt: s.encrypt, stream: uint16(stream), from: uint32(from), to: uint32(to),
		epoch: s.epoch, purpose: s.purpose, job: s.job, nonce: newNonce(),
	}
}

// check returns an error unless h is meant for this session.
func (s *session) check(h *hello) error {
	switch {
	case h.job != s.job:
		return errors.New("it belongs to another job")
	case h.epoch != s.epoch:
		return fmt.Errorf("it is of epoch %d, this is %d", h.epoch, s.epoch)
	case h.purpose != s.purpose:
		return errors.New("it connects for another purpose")
	case h.encrypt != s.encrypt:
		return errors.New("one side encrypts, the other does not")
	}
	return nil
}

// transcript is what both sides of a connection have said to each other.
type transcript struct {
	key   []byte
	hello [helloBytes]byte
	nonce nonce // the acceptor's
}

// mac returns the proof that its sender knows the key, for one label. extra is
// of a fixed length for each label, so that no two inputs are the same.
func (t *transcript) mac(label string, extra ...byte) []byte {
	m := hmac.New(sha256.New, t.key)
	io.WriteString(m, label)
	m.Write([]byte{0})
	m.Write(t.hello[:])
	m.Write(t.nonce[:])
	m.Write(extra)
	return m.Sum(nil)
}

// send and expect are one MAC on the wire.
func (t *transcript) send(c io.Writer, label string, extra ...byte) error {
	_, err := c.Write(t.mac(label, extra...))
	return err
}

func (t *transcript) expect(c io.Reader, label string, extra ...byte) error {
	var got [macBytes]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		return fmt.Errorf("waiting for %q: %w", label, noEOF(err))
	}
	if !hmac.Equal(got[:], t.mac(label, extra...)) {
		return ErrKey
	}
	return nil
}

// ask is the dialing side up to the proof that the other side knows the key.
// The caller sets deadlines.
func (s *session) ask(c io.ReadWriter, h hello) (*transcript, error) {
	t := &transcript{key: s.key, hello: h.encode()}
	if _, err := c.Write(t.hello[:]); err != nil {
		return nil, fmt.Errorf("sending hello: %w", err)
	}
	var answer [answerBytes]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, fmt.Errorf("waiting for the answer to hello: %w", noEOF(err))
	}
	copy(t.nonce[:], answer[:])
	if !hmac.Equal(answer[nonceBytes:], t.mac("answer")) {
		_ = t.send(c, "leave") // so that the other side knows, too, that keys differ
		return nil, ErrKey
	}
	return t, nil
}

// answer is the accepting side up to the challenge: meant says whether this
// rank expects such a hello. The caller sets deadlines.
func (s *session) answer(c io.ReadWriter, meant func(*hello) error) (h hello, t *transcript, err error) {
	t = &transcript{key: s.key, nonce: newNonce()}
	if n, err := io.ReadFull(c, t.hello[:]); err != nil {
		switch {
		case n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
			return h, nil, errSilent
		case n > 0 && !bytes.HasPrefix(t.hello[:n], []byte(helloMagic)[:min(n, 4)]):
			return h, nil, fmt.Errorf("%w: it sent %.12q", errStranger, t.hello[:n])
		}
		return h, nil, fmt.Errorf("%d of %d bytes of its hello came: %w", n, helloBytes, noEOF(err))
	}
	if h, err = decodeHello(t.hello[:]); err != nil {
		return h, nil, err
	}
	if err = s.check(&h); err != nil {
		return h, nil, err
	}
	if err = meant(&h); err != nil {
		return h, nil, err
	}
	if _, err = c.Write(append(t.nonce[:], t.mac("answer")...)); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errNoProof, err)
	}
	return h, t, nil
}

// verdict is what the dialing side says after the challenge: whether it takes
// this connection.
func (t *transcript) verdict(c io.Reader) (take bool, err error) {
	var got [macBytes]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		return false, fmt.Errorf("%w: %w", errNoProof, noEOF(err))
	}
	take = hmac.Equal(got[:], t.mac("take"))
	leave := hmac.Equal(got[:], t.mac("leave"))
	if !take && !leave {
		return false, ErrKey
	}
	return take, nil
}

// noEOF says in words what io.EOF means in a handshake.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errHungUp
	}
	return err
}

// errHungUp is a connection that the other side closed during the handshake.
var errHungUp = errors.New("the other side closed the connection during the handshake")
