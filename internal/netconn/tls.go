package netconn

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// exporterLabel is the label of tls-exporter channel bindings (RFC 9266).
const exporterLabel = "EXPORTER-Channel-Binding"

// newTLS returns the TLS settings of both sides. The certificate's private key is derived from the session's key: its
// holder knows the session's key, and all ends have the same one, so that no certificate needs to be distributed and no
// authority is needed. Session keys are ephemeral: an attacker who later learns the job's key cannot decrypt anything.
func newTLS(secret []byte) (*tls.Config, error) {
	seed, err := hkdf.Expand(sha256.New, secret, "certificate", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "treerun job"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("making the job's certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // names and dates are not significant: VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return ErrKey
			}
			return nil
		},
	}, nil
}

// under is the connection below a tls.Conn, which the owner may replace.
type under struct{ net.Conn }

// binding returns 32 bytes that only the two ends of c's session know.
func binding(c *tls.Conn) ([]byte, error) {
	state := c.ConnectionState()
	if state.Version != tls.VersionTLS13 {
		return nil, errors.New("no TLS 1.3")
	}
	return state.ExportKeyingMaterial(exporterLabel, nil, 32)
}

// seal starts the TLS session of a connection for which the proof was sent, if the session encrypts, and makes the
// dialing side prove that it is the other end of it.
func (c *Conn) seal(ctx context.Context, dialer bool) (err error) {
	if c.session.tls == nil {
		return nil
	}
	c.under = &under{c.raw}
	if dialer {
		c.tls = tls.Client(c.under, c.session.tls)
	} else {
		c.tls = tls.Server(c.under, c.session.tls)
	}
	c.Conn = c.tls
	if err = c.tls.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", Stalled(Jumbo(c.raw), noEOF(err)))
	}
	if c.bound, err = binding(c.tls); err != nil {
		return err
	}
	if dialer {
		return c.proof.send(c, "seal", c.bound...)
	}
	return c.proof.expect(c, "seal", c.bound...)
}

// guarded runs f, which uses c, with a deadline and until ctx ends. Afterwards c has no deadline.
func guarded(ctx context.Context, c *Conn, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	unblock := context.AfterFunc(ctx, func() { c.raw.SetDeadline(time.Unix(1, 0)) })
	err := f(ctx)
	if !unblock() {
		return errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	return c.raw.SetDeadline(time.Time{})
}
