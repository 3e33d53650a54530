package probe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/treerun/treerun/topo"
)

// Cache keeps measured graphs in a folder, one file per host, boot and number
// of ranks: what was measured before a reboot, on another machine or with
// other cores is not found.
type Cache struct {
	Dir string
}

// UserCache returns the cache in the user's cache directory.
func UserCache() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("probe: no place to keep measurements: %w", err)
	}
	return Cache{Dir: filepath.Join(dir, "treerun", "topo")}, nil
}

// method counts the changes to how links are measured. What an earlier version
// has kept is not found.
const method = 2

// maxGraphFile bounds what Load reads, in bytes.
const maxGraphFile = 16 << 20

// Path returns the file of the graph of size ranks on cores usable cores of
// this host.
func (c Cache) Path(size, cores int) string {
	host, _ := os.Hostname() // without a name the boot id still tells hosts apart
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s\n%d cores", method, host, strings.TrimSpace(string(boot)), cores))
	return filepath.Join(c.Dir, fmt.Sprintf("%x-n%d.json", id[:8], size))
}

// Load returns the graph in file, nil when there is none. A file that is not a
// graph of that many measured ranks is an error; the caller measures again.
func (c Cache) Load(file string, size int) (*topo.Graph, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("probe: cached graph: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGraphFile+1))
	if err != nil {
		return nil, fmt.Errorf("probe: cached graph: %w", err)
	}
	if len(data) > maxGraphFile {
		return nil, fmt.Errorf("probe: cached graph %s has more than %d bytes, more than any graph", file, maxGraphFile)
	}
	g, err := topo.ParseGraph(data)
	if err != nil {
		return nil, fmt.Errorf("probe: cached graph %s: %w", file, err)
	}
	if g.Ranks != size {
		return nil, fmt.Errorf("probe: cached graph %s is for %d ranks, not %d", file, g.Ranks, size)
	}
	return g, nil
}
