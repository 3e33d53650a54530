package rank

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/treerun/treerun/rank/job"
)

// A key file holds job.SecretBytes bytes as hexadecimal digits, and is for its
// owner only.

// readKey reads a key file.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so that others may read or change it: chmod 600 it, and if somebody could have read it, make a new one", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*job.SecretBytes))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return parseKey(path, text)
}

func parseKey(path string, text []byte) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != job.SecretBytes {
		return nil, fmt.Errorf("%s does not hold %d hexadecimal digits, as `openssl rand -hex %d` makes them", path, 2*job.SecretBytes, job.SecretBytes)
	}
	return key, nil
}

// userKey returns the key in dir, and makes one when there is none. Several
// ranks may do so at once; all get the same key.
func userKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, "key")
	key, err := readKey(path)
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
	return readKey(path)
}
