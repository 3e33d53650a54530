package rank

import (
	"fmt"

	"github.com/treerun/treerun/internal/netconn"
)

// key returns the key of the job and its epoch for one purpose.
func (c *config) key(purpose string) []byte {
	if c.epoch > 0 {
		purpose = fmt.Sprintf("epoch %d %s", c.epoch, purpose)
	}
	key, err := netconn.DeriveKey(c.secret, c.jobID, "treerun "+purpose)
	if err != nil {
		panic(fmt.Sprintf("rank: HKDF of 32 bytes: %v", err)) // only longer keys or FIPS mode with short secrets fail
	}
	return key
}
