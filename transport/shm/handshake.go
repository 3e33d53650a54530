package shm

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// The handshake between a member and the leader (the first member), all of fixed size:
//
//	member -> leader  hello      magic, member's rank, member's nonce
//	leader -> member  challenge  leader's nonce, leader's proof
//	member -> leader  proof      member's proof
//	leader -> member  grant      bytes of the segment, and its descriptor
//
// A proof is an HMAC-SHA256 under a key derived from the job's key and id, over
// the prover's role, the layout's digest, both ranks and both nonces. So it is
// good for one connection, one direction, one pair of ranks and one layout.
const (
	helloMagic     = "treeshm1"
	nonceBytes     = 32
	helloBytes     = len(helloMagic) + 4 + nonceBytes
	challengeBytes = nonceBytes + sha256.Size
	grantBytes     = 8
	leader         = 0 // which member
)

// errAuth is the error of a peer that does not prove that it knows the key.
var errAuth = errors.New("peer does not know this job's key, or has another layout")

type (
	nonce [nonceBytes]byte
	proof [sha256.Size]byte
)

// session is what both proofs of one connection are about.
type session struct {
	key        []byte
	digest     [sha256.Size]byte
	leader     int
	member     int
	fromMember nonce
	fromLeader nonce
}

// sessionKey derives the key for this use from the job's.
func sessionKey(key []byte, jobID string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, "treerun shm handshake 1\x00"+jobID)
	return h.Sum(nil)
}

// prove returns the proof of the side with that role.
func (s *session) prove(role string) (p proof) {
	h := hmac.New(sha256.New, s.key)
	b := append([]byte(role), 0)
	b = append(b, s.digest[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.leader))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.member))
	b = append(b, s.fromMember[:]...)
	b = append(b, s.fromLeader[:]...)
	_, _ = h.Write(b)
	h.Sum(p[:0])
	return p
}

func (s *session) check(role string, got proof) error {
	want := s.prove(role)
	if !hmac.Equal(got[:], want[:]) {
		return errAuth
	}
	return nil
}

// encodeHello and decodeHello are the first message.
func encodeHello(member int, n nonce) []byte {
	b := append([]byte(nil), helloMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(member))
	return append(b, n[:]...)
}

func decodeHello(b []byte, l *transport.Layout) (member int, n nonce, err error) {
	if len(b) != helloBytes || string(b[:len(helloMagic)]) != helloMagic {
		return 0, n, errors.New("not a hello")
	}
	r := binary.LittleEndian.Uint32(b[len(helloMagic):])
	if uint64(r) >= uint64(l.Size) || l.MemberIndex(int(r)) <= leader {
		return 0, n, fmt.Errorf("hello from rank %d of %d", r, l.Size)
	}
	copy(n[:], b[len(helloMagic)+4:])
	return int(r), n, nil
}

func decodeChallenge(b []byte) (n nonce, p proof, err error) {
	if len(b) != challengeBytes {
		return n, p, errors.New("not a challenge")
	}
	copy(n[:], b)
	copy(p[:], b[nonceBytes:])
	return n, p, nil
}

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails: crypto/rand ends the process instead
	return n
}

// serveHandshake is the leader's side up to the member's proof. It reads at
// most helloBytes + sha256.Size bytes. The caller sets a deadline.
func serveHandshake(c io.ReadWriter, s session, l *transport.Layout) (member int, err error) {
	var hello [helloBytes]byte
	if _, err := io.ReadFull(c, hello[:]); err != nil {
		return 0, fmt.Errorf("reading the hello: %w", err)
	}
	if s.member, s.fromMember, err = decodeHello(hello[:], l); err != nil {
		return 0, err
	}
	s.fromLeader = newNonce()
	mine := s.prove("leader")
	if _, err := c.Write(append(s.fromLeader[:], mine[:]...)); err != nil {
		return 0, fmt.Errorf("sending the challenge: %w", err)
	}
	var theirs proof
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return 0, fmt.Errorf("reading the proof: %w", err)
	}
	return s.member, s.check("member", theirs)
}

// joinHandshake is the member's side up to its proof.
func joinHandshake(c io.ReadWriter, s session) error {
	s.fromMember = newNonce()
	if _, err := c.Write(encodeHello(s.member, s.fromMember)); err != nil {
		return fmt.Errorf("sending the hello: %w", err)
	}
	var b [challengeBytes]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return fmt.Errorf("reading the challenge: %w", err)
	}
	var theirs proof
	var err error
	if s.fromLeader, theirs, err = decodeChallenge(b[:]); err != nil {
		return err
	}
	if err := s.check("leader", theirs); err != nil {
		return err
	}
	mine := s.prove("member")
	if _, err := c.Write(mine[:]); err != nil {
		return fmt.Errorf("sending the proof: %w", err)
	}
	return nil
}

// sendGrant gives the segment to a member that has proved itself.
func sendGrant(c *net.UnixConn, fd, size int) error {
	return osys.SendFD(c, binary.LittleEndian.AppendUint64(nil, uint64(size)), fd)
}

// receiveGrant returns the descriptor of a segment of size bytes.
func receiveGrant(c *net.UnixConn, size int) (fd int, err error) {
	var b [grantBytes]byte
	if fd, err = osys.RecvFD(c, b[:]); err != nil {
		return -1, err
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != uint64(size) {
		_ = osys.CloseFD(fd)
		return -1, fmt.Errorf("leader offers a segment of %d bytes, want %d", got, size)
	}
	return fd, nil
}
