package netconn

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// Every connection begins with a mutual challenge and response. All messages have a fixed size, and at most 112 bytes
// are read from an unauthenticated peer.
//
//	dialer -> acceptor  hello    magic 4 | version 1 | flags 1 | channel 2 | from 4 | to 4 |
//	                             epoch 4 | purpose 4 | job 8 | nonce 24 | mark 8 | attempt 16
//	acceptor -> dialer  answer   nonce 32 | attempt 16 | MAC("answer") 32
//	dialer -> acceptor  proof    MAC("take") 32
//	acceptor -> dialer  welcome  MAC("welcome") 32
//
// A MAC is HMAC-SHA256 over its label, the whole hello and the acceptor's nonce and attempt, under a key that is
// derived from the job's key for one use. So each side knows the name of the other, no message can stand for another
// one or be sent back to its sender, and recorded messages are useless on any other connection. Job, epoch and purpose
// are in the hello only so that a process with wrong ones gets a specific error. A dialer that has found a faster path
// closes the connection in place of its proof. The mark is the beginning of MAC("hello") over the hello without the
// mark: by the mark a process recognizes a rank of its own job that has dialed the wrong process. It refuses such a
// rank like a stranger.
//
// With TLS, a TLS handshake follows the proof; a MAC("seal") of the dialer and the welcome go over TLS, and cover a
// value that only the two ends of this TLS session know (RFC 9266). So the authenticated processes are the ends of the
// session.
const (
	helloMagic   = "trnc"
	helloVersion = 1
	nonceBytes   = 32
	attemptBytes = 16
	markBytes    = 8 // at the end of the hello's nonce
	macBytes     = sha256.Size
	helloBytes   = 32 + nonceBytes + attemptBytes
	answerBytes  = nonceBytes + attemptBytes + macBytes
	flagEncrypt  = 1
)

// ErrKey is the error for a peer that does not know the key of this job.
var ErrKey = errors.New("the process there does not know the key of this job")

// errProtocol is the error for a connection that does not use the protocol.
var errProtocol = errors.New("it does not speak treerun's protocol")

// errMisdirected is the error for a rank of this job that wants another process.
var errMisdirected = errors.New("a rank of this job has dialed the wrong process")

// errSilent is the error for a connection that ended before it sent anything.
var errSilent = errors.New("it closed the connection and sent nothing")

// errNoProof is the error for a connection that began well and did not continue.
var errNoProof = errors.New("waiting for its proof")

type nonce [nonceBytes]byte

func newNonce() (n nonce) {
	rand.Read(n[:]) // never fails
	return n
}

// Attempt is a random number that distinguishes the attempts of one job, which may have the same key, id and epoch. All
// zeros: there is none, or it is not known yet.
type Attempt [attemptBytes]byte

// Attempts holds the attempt of this process. Its methods are called concurrently.
type Attempts interface {
	// Current returns the attempt, zeros if it is not known.
	Current() Attempt
	// Learn compares the attempt of an authenticated acceptor with the current one, or adopts it.
	Learn(from int, a Attempt) error
	// Admit returns an error if a dialer with this hello must not continue. The dialer has already received the
	// answer, and detects the reason by it.
	Admit(h *Hello) error
}

// scope holds the values that both ends must have in common in addition to the key. They are not secret.
type scope struct {
	Epoch   uint32
	Purpose [4]byte
	Job     [8]byte
}

// Session holds the credentials with which a process authenticates connections of one use. It is immutable once in use.
type Session struct {
	key      []byte
	tls      *tls.Config // nil without encryption
	scope    scope
	attempts Attempts // nil: there is only one
}

// DeriveKey returns 32 bytes that only holders of the job's secret can know, for one use: HKDF-SHA256 (RFC 5869) with
// the job's id as salt. So even jobs that share a secret have different keys.
func DeriveKey(secret []byte, jobID, use string) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, []byte(jobID), use, sha256.Size)
}

// NewSession returns the session of a key that was derived for this use alone. attempts may be nil.
func NewSession(key []byte, attempts Attempts) *Session {
	return &Session{key: key, attempts: attempts}
}

// Encrypt makes the connections use TLS 1.3. It must be called before the first connection.
func (s *Session) Encrypt() (err error) {
	s.tls, err = newTLS(s.key)
	return err
}

// Hello is the first message of a dialing side: its number, the number of the wanted process, and the channel.
type Hello struct {
	From, To int
	Channel  uint16  // purpose of the connection, or its number among several
	Attempt  Attempt // filled in by Dial

	encrypt bool
	scope   scope
	nonce   nonce
}

// wireHello is a Hello on the wire.
type wireHello struct {
	Magic          [4]byte
	Version, Flags uint8
	Channel        uint16
	From, To       uint32
	Scope          scope
	Nonce          nonce
	Attempt        Attempt
}

func (h *Hello) encode() (b [helloBytes]byte) {
	w := wireHello{Magic: [4]byte([]byte(helloMagic)), Version: helloVersion, Channel: h.Channel,
		From: uint32(h.From), To: uint32(h.To), Scope: h.scope, Nonce: h.nonce, Attempt: h.Attempt}
	if h.encrypt {
		w.Flags = flagEncrypt
	}
	_, _ = binary.Encode(b[:], binary.BigEndian, &w) // the array has room for all fields
	return b
}

func decodeHello(b []byte) (h Hello, err error) {
	switch {
	case len(b) != helloBytes || string(b[:4]) != helloMagic:
		return h, fmt.Errorf("%w: it sent %.12q", errProtocol, b)
	case b[4] != helloVersion:
		return h, fmt.Errorf("its handshake has version %d, this one is %d (hint: all ranks must run the same build)",
			b[4], helloVersion)
	case b[5]&^flagEncrypt != 0:
		return h, fmt.Errorf("unknown flags %#x in its hello", b[5])
	}
	var w wireHello
	_, err = binary.Decode(b, binary.BigEndian, &w)
	return Hello{From: int(w.From), To: int(w.To), Channel: w.Channel, Attempt: w.Attempt,
		encrypt: w.Flags == flagEncrypt, scope: w.Scope, nonce: w.Nonce}, err
}

// complete sets the fields that every hello of the session has, and a new nonce.
func (s *Session) complete(h Hello) Hello {
	h.encrypt, h.scope, h.nonce, h.Attempt = s.tls != nil, s.scope, newNonce(), s.attempt()
	copy(h.nonce[nonceBytes-markBytes:], s.mark(h))
	return h
}

// mark returns the mark of a hello, regardless of the mark that it has.
func (s *Session) mark(h Hello) []byte {
	clear(h.nonce[nonceBytes-markBytes:])
	t := transcript{key: s.key, hello: h.encode()}
	return t.mac("hello")[:markBytes]
}

func (s *Session) attempt() (a Attempt) {
	if s.attempts != nil {
		a = s.attempts.Current()
	}
	return a
}

// check returns an error unless h is meant for this session.
func (s *Session) check(h *Hello) error {
	switch {
	case h.scope.Job != s.scope.Job:
		return errors.New("it belongs to another job")
	case h.scope.Epoch != s.scope.Epoch:
		return fmt.Errorf("it is of epoch %d, this is %d", h.scope.Epoch, s.scope.Epoch)
	case h.scope.Purpose != s.scope.Purpose:
		return errors.New("it connects for another purpose")
	case h.encrypt != (s.tls != nil):
		return errors.New("one side encrypts, the other does not")
	}
	return nil
}

// transcript holds the messages of both sides of a connection.
type transcript struct {
	key     []byte
	hello   [helloBytes]byte
	nonce   nonce // the acceptor's
	attempt Attempt
}

// mac returns the proof that its sender knows the key, for one label. extra has a fixed length for each label, so that
// no two inputs are the same.
func (t *transcript) mac(label string, extra ...byte) []byte {
	m := hmac.New(sha256.New, t.key)
	io.WriteString(m, label)
	m.Write([]byte{0})
	m.Write(t.hello[:])
	m.Write(t.nonce[:])
	m.Write(t.attempt[:])
	m.Write(extra)
	return m.Sum(nil)
}

// send and expect transfer one MAC.
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

// sendHello runs the dialing side up to the proof that the other side knows the key. The caller sets deadlines.
func (s *Session) sendHello(c io.ReadWriter, h Hello) (*transcript, error) {
	t := &transcript{key: s.key, hello: h.encode()}
	if _, err := c.Write(t.hello[:]); err != nil {
		return nil, fmt.Errorf("sending hello: %w", err)
	}
	var answer [answerBytes]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, fmt.Errorf("waiting for the answer to hello: %w", noEOF(err))
	}
	copy(t.nonce[:], answer[:])
	copy(t.attempt[:], answer[nonceBytes:])
	if !hmac.Equal(answer[nonceBytes+attemptBytes:], t.mac("answer")) {
		_ = t.send(c, "refuse") // so that the other side, too, learns that the keys differ
		return nil, ErrKey
	}
	if s.attempts != nil {
		return t, s.attempts.Learn(h.To, t.attempt)
	}
	return t, nil
}

// answerHello runs the accepting side up to the challenge: meant returns an error for a hello that this process does
// not expect. The caller sets deadlines.
func (s *Session) answerHello(c io.ReadWriter, meant func(*Hello) error) (h Hello, t *transcript, err error) {
	t = &transcript{key: s.key, nonce: newNonce(), attempt: s.attempt()}
	if n, err := io.ReadFull(c, t.hello[:]); err != nil {
		switch {
		case n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
			return h, nil, errSilent
		case n > 0 && !bytes.HasPrefix(t.hello[:n], []byte(helloMagic)[:min(n, 4)]):
			return h, nil, fmt.Errorf("%w: it sent %.12q", errProtocol, t.hello[:n])
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
		if hmac.Equal(h.nonce[nonceBytes-markBytes:], s.mark(h)) {
			err = fmt.Errorf("%w: %w", errMisdirected, err)
		}
		return h, nil, err
	}
	if _, err = c.Write(append(append(t.nonce[:], t.attempt[:]...), t.mac("answer")...)); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errNoProof, err)
	}
	if s.attempts != nil {
		return h, t, s.attempts.Admit(&h)
	}
	return h, t, nil
}

// expectProof waits for the dialing side's proof, with which it takes this connection.
func (t *transcript) expectProof(c io.Reader) error {
	err := t.expect(c, "take")
	if err != nil && !errors.Is(err, ErrKey) {
		err = fmt.Errorf("%w: %w", errNoProof, err)
	}
	return err
}

// Accept authenticates the other end of an incoming connection: meant returns an error for a hello that this process
// does not expect. The caller sets deadlines, and then calls Seal and Welcome. Until Welcome the other end does not
// rely on this one.
func (s *Session) Accept(raw net.Conn, meant func(*Hello) error) (*Conn, error) {
	h, t, err := s.answerHello(raw, meant)
	if err != nil {
		return nil, err
	}
	if err = t.expectProof(raw); err != nil {
		return nil, err
	}
	return &Conn{Conn: raw, raw: raw, peer: h.From, hello: h, proof: t, session: s}, nil
}

// Seal starts the TLS session of an accepted connection, if the session encrypts.
func (c *Conn) Seal(ctx context.Context) error {
	return guarded(ctx, c, sealTimeout, func(ctx context.Context) error { return c.seal(ctx, false) })
}

// Welcome notifies the dialing side that its connection is in place.
func (c *Conn) Welcome() error { return c.proof.send(c, "welcome", c.bound...) }

// Dial runs the dialing side on an established connection. After an error the connection is closed.
func (s *Session) Dial(ctx context.Context, raw net.Conn, h Hello) (*Conn, error) {
	return s.dial(ctx, raw, h, new(atomic.Bool))
}

// dial is Dial for one path of several, of which the one that sets first wins.
func (s *Session) dial(ctx context.Context, raw net.Conn, h Hello, first *atomic.Bool) (*Conn, error) {
	h = s.complete(h)
	c := &Conn{Conn: raw, raw: raw, peer: h.To, hello: h, session: s}
	err := guarded(ctx, c, answerTimeout, func(context.Context) (err error) {
		c.proof, err = s.sendHello(raw, h)
		return err
	})
	if err == nil && !first.CompareAndSwap(false, true) {
		err = errLost
	}
	if err == nil {
		if err = guarded(ctx, c, sealTimeout, c.sendProof); err != nil {
			first.Store(false)
		}
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// sendProof runs the dialing side from its proof on.
func (c *Conn) sendProof(ctx context.Context) error {
	if err := c.proof.send(c.raw, "take"); err != nil {
		return fmt.Errorf("sending the proof: %w", err)
	}
	if err := c.seal(ctx, true); err != nil {
		return err
	}
	return c.proof.expect(c, "welcome", c.bound...)
}

// noEOF replaces io.EOF in a handshake by a descriptive error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errHungUp
	}
	return err
}

// errHungUp is the error for a connection that the other side closed during the handshake.
var errHungUp = errors.New("the other side closed the connection during the handshake")
