package nodes

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/rank/strict"
)

// maxRecord bounds a hello and an answer.
const maxRecord = 1 << 20

// errStranger is the error for a peer that does not know the key.
var errStranger = errors.New("it does not have the key of this job: another key file, or another job id")

// secure returns the settings of both sides of a connection. There is one
// certificate, made of the key: to hold its private key is to know the key.
func secure(key []byte, jobID string) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, key, []byte(jobID), "treerun nodes", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the job: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	cert, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the job: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection does it: names and dates say nothing here
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !private.Public().(ed25519.PublicKey).Equal(s.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}, nil
}

// toldStranger turns the words in which the other side of a handshake tells that
// we have another key than it into ours.
func toldStranger(err error) error {
	if remote := new(net.OpError); errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Error(), "bad certificate") {
		return fmt.Errorf("%w (it finds that of us: %w)", errStranger, err)
	}
	return err
}

// writeRecord writes v with its length in front.
func writeRecord(w io.Writer, v any) error {
	b, err := msgpack.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxRecord {
		return fmt.Errorf("a command line of %d bytes, at most %d are possible", len(b), maxRecord)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// readRecord reads what writeRecord has written.
func readRecord(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxRecord {
		return fmt.Errorf("a record of %d bytes, want 1 to %d", n, maxRecord)
	}
	var b bytes.Buffer // grows with what comes, not with what is claimed
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return err
	}
	return strict.Unmarshal(b.Bytes(), v)
}

// answer is what node 0 says to a hello, after which there is no use in trying
// again.
type answer struct {
	Refused string // why; "": the job begins
}
