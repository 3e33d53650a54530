package job

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/safefile"
)

// ReadKeyFile reads a key file, which holds SecretBytes bytes as hexadecimal digits, and is accessible only to its
// owner: this user or root.
func ReadKeyFile(path string) ([]byte, error) {
	text, info, err := safefile.ReadOwned(path, 4*SecretBytes)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so that others may read or change it: chmod 600 it, and if others "+
			"could have read it, make a new one", path, mode)
	}
	return ParseKey(path, text)
}

// ParseKey reads the contents of a key file; path is for errors.
func ParseKey(path string, text []byte) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != SecretBytes {
		return nil, fmt.Errorf("%s does not hold %d hexadecimal digits, as `openssl rand -hex %d` makes them", path,
			2*SecretBytes, SecretBytes)
	}
	return key, nil
}
