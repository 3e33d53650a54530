package environ

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/safefile"
)

// secretFrom returns the secret of the job: from the key file, or from the user's own key, which is created when it is
// missing and the ranks meet at a loopback address. On several hosts it must exist, with the same contents on all.
func secretFrom(get func(string) string, j *Job) ([]byte, error) {
	if path := get(job.EnvKeyFile); path != "" {
		secret, err := job.ReadKeyFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job.EnvKeyFile, err)
		}
		return secret, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, fmt.Errorf("no folder for a key: %w; set %s", err, job.EnvKeyFile)
	}
	path := filepath.Join(dir, "treerun", "key")
	if j.SeedIsLoopback() {
		return userKey(path)
	}
	key, err := job.ReadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the ranks have no key; make one with `openssl rand -hex 32 > FILE; chmod 600 FILE`, give the "+
			"file to all hosts as %s, or set %s=FILE", path, job.EnvKeyFile)
	}
	return key, err
}

// userKey returns the key in the file at path, and creates it when it is missing. Several ranks may do so at the same
// time; all get the same key.
func userKey(path string) ([]byte, error) {
	key, err := job.ReadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	text := hex.EncodeToString(job.NewSecret()) + "\n"
	if err := safefile.Create(path, []byte(text)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping a new key: %w", err)
	}
	return job.ReadKeyFile(path)
}
