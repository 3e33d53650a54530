package shm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
)

// The maker (the first member) sends the descriptor of the segment to each other member's doorbell. The first exchange
// proves that the doorbells belong to the members, and that all members have the same layout: each report has a MAC,
// under the job's key, of the job, the layout, the rank and the doorbell's random name. The maker's message begins
// with such a MAC too: any process of the host may send to a doorbell.
const maker = 0 // which member

const (
	joinTimeout = 20 * time.Second      // bounds how long a descriptor may be on its way
	joinPause   = 2 * time.Millisecond  // between two attempts
	joinWait    = 20 * time.Millisecond // the longest wait for a message
)

// errProof is the error of a rank that does not prove that it knows the key.
var errProof = errors.New("does not know this job's key, or has another layout")

// proof returns a MAC that only a rank of this job can compute for a rank's doorbell.
func (c *connecting) proof(use string, rank int, bell string) (p [sha256.Size]byte) {
	if c.mac == nil {
		c.mac = hmac.New(sha256.New, c.cfg.Key)
	}
	c.mac.Reset()
	fmt.Fprintf(c.mac, "treerun shm 3: %s %x %q %d %q", use, c.m.Digest, c.cfg.JobID, rank, bell)
	c.mac.Sum(p[:0])
	return p
}

// Uses of proofs.
const (
	joins  = "joins"
	grants = "grants"
	none   = "none"
)

// check checks the proofs of all reports.
func (c *connecting) check(all []report) error {
	for i := range all {
		r := c.cfg.Layout.Member(i)
		if want := c.proof(joins, r, all[i].Bell); !hmac.Equal(want[:], all[i].Proof[:]) {
			return fmt.Errorf("rank %d: %w", r, errProof)
		}
	}
	return nil
}

// grant sends the segment to all other members. If that fails it ends the wait of all of them: they wait at their
// doorbells, and take part in no exchange meanwhile.
func (c *connecting) grant(ctx context.Context, all []report) error {
	var errs []error
	for i := maker + 1; i < len(all); i++ {
		r := c.cfg.Layout.Member(i)
		token := c.proof(grants, r, all[i].Bell)
		if err := retry(ctx, func() error { return c.bells.own.SendFD(all[i].Bell, token[:], c.fd) }); err != nil {
			errs = append(errs, fmt.Errorf("sending the shared memory to rank %d: %w", r, err))
		}
	}
	for i := maker + 1; i < len(all) && errs != nil; i++ {
		no := c.proof(none, c.cfg.Layout.Member(i), all[i].Bell)
		_ = c.bells.own.SendNone(all[i].Bell, no[:])
	}
	return errors.Join(errs...)
}

// join receives the segment, whose sender has proved itself, and maps it.
func (c *connecting) join(ctx context.Context, bell string) error {
	token, no := c.proof(grants, c.cfg.Rank, bell), c.proof(none, c.cfg.Rank, bell)
	err := retry(ctx, func() (err error) {
		c.fd, err = c.bells.own.RecvFD(token[:], no[:], joinWait)
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the shared memory of rank %d: %w", c.cfg.Layout.Member(maker), err)
	}
	if err = osys.CheckSealed(c.fd, c.m.Total); err != nil {
		return err
	}
	c.mem, err = osys.Map(c.fd, 0, c.m.Bytes)
	return err
}

// retry calls f until it returns another result than osys.ErrAgain.
func retry(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for {
		if err := f(); !errors.Is(err, osys.ErrAgain) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinPause):
		}
	}
}
