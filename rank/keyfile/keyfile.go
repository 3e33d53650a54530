// Package keyfile reads the file with the key that all hosts of a job share. Packages
// rank and cmd/treerun use it; it knows nothing of either.
package keyfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/rank/job"
)

// Read reads a key file, which holds job.SecretBytes bytes as hexadecimal
// digits, and is for its owner only: this user or root.
func Read(path string) ([]byte, error) {
	text, info, err := safefile.ReadOwned(path, 4*job.SecretBytes)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so that others may read or change it: chmod 600 it, and if somebody "+
			"could have read it, make a new one", path, mode)
	}
	return Parse(path, text)
}

// Parse reads the contents of a key file; path is for errors.
func Parse(path string, text []byte) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != job.SecretBytes {
		return nil, fmt.Errorf("%s does not hold %d hexadecimal digits, as `openssl rand -hex %d` makes them", path,
			2*job.SecretBytes, job.SecretBytes)
	}
	return key, nil
}
