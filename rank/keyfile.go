package rank

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treerun/treerun/rank/job"
	"github.com/treerun/treerun/rank/keyfile"
)

// userKey returns the key in dir, and makes one when there is none. Several
// ranks may do so at once; all get the same key.
func userKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, "key")
	key, err := keyfile.Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	secret, err := job.NewSecret()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "key-*") // with mode 0600, and exclusively
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, hex.EncodeToString(secret))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("writing a new key: %w", err)
	}
	// The link appears whole or not at all, and never replaces another one.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping a new key: %w", err)
	}
	return keyfile.Read(path)
}
