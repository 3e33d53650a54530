package rank

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// key returns the key of the job and its epoch for one purpose.
func (c *config) key(purpose string) []byte {
	if c.epoch > 0 {
		purpose = fmt.Sprintf("epoch %d %s", c.epoch, purpose)
	}
	return deriveKey(c.secret, c.jobID, purpose)
}

// deriveKey returns the 32-byte key of a job for one purpose: HKDF-SHA256
// (RFC 5869) of the secret, with the job id as salt. Two jobs that share a
// secret have different keys all the same.
func deriveKey(secret []byte, jobID, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, secret, []byte(jobID), "treerun "+purpose, 32)
	if err != nil {
		panic(fmt.Sprintf("rank: HKDF of 32 bytes: %v", err)) // only longer keys or FIPS mode with short secrets fail
	}
	return key
}
