package rank

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/safefile"
)

// userKey returns the key in dir, and makes one when there is none. Several
// ranks may do so at once; all get the same key.
func userKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, "key")
	key, err := job.ReadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	secret, err := job.NewSecret()
	if err != nil {
		return nil, err
	}
	if err := safefile.Create(path, []byte(hex.EncodeToString(secret)+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping a new key: %w", err)
	}
	return job.ReadKeyFile(path)
}
