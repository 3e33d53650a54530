package probe

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
)

// Cache keeps measurements in a folder. Those within a host have one file per host, boot and number of ranks: a
// measurement from before a reboot, on another machine or with other cores is not found. Those between hosts have one
// file per set of hosts.
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

// method counts the changes to how links are measured. A file of an earlier version is not found.
const method = 9

// maxCached bounds a file, in bytes: that of a network is the largest.
const maxCached = network.MaxBytes + 64<<20

// Path returns the file of the graph of size ranks on cores usable cores of
// this host.
func (c Cache) Path(size, cores int) string {
	return c.PathOf(fmt.Sprintf("%d\n%d cores", method, cores), size)
}

// PathOf returns the file for a measurement of this host with the given number of ranks, which text distinguishes from
// others.
func (c Cache) PathOf(text string, size int) string {
	host, boot := thisHost()
	id := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", host, boot, text))
	return filepath.Join(c.Dir, fmt.Sprintf("%x-n%d.json", id[:8], size))
}

// Read returns the contents of a file, nil when there is none.
func (c Cache) Read(file string) ([]byte, error) {
	data, _, err := safefile.ReadOwned(file, maxCached)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("probe: cached measurement: %w", err)
	}
	return data, nil
}

// Write writes a file, whole or not at all.
func (c Cache) Write(file string, data []byte) error {
	if err := safefile.Store(file, data); err != nil {
		return fmt.Errorf("probe: storing a measurement: %w", err)
	}
	c.prune()
	return nil
}

// maxFiles is the number of files that a Cache keeps. Hosts may share the folder, and each has some.
const maxFiles = 512

// prune removes the oldest files beyond maxFiles. Others may do so at the same time, and read or write files: one that
// misses a file measures again.
func (c Cache) prune() {
	entries, _ := os.ReadDir(c.Dir)
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".json" {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files[min(len(files), maxFiles):] {
		_ = os.Remove(filepath.Join(c.Dir, f.Name()))
	}
}

// Store writes f to file, whole or not at all.
func (c Cache) Store(file string, f *Findings) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("probe: storing the links: %w", err)
	}
	return c.Write(file, data)
}

// thisHost returns the name of this host and the id of its boot.
func thisHost() (name, boot string) {
	name, _ = os.Hostname() // without a name the boot id still distinguishes hosts
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return name, strings.TrimSpace(string(id))
}

// Load returns the findings in file, nil when there is none. A file that is not of a graph of that many ranks is an
// error; the caller measures again.
func (c Cache) Load(file string, size int) (*Findings, error) {
	data, err := c.Read(file)
	if data == nil || err != nil {
		return nil, err
	}
	f, err := parseFindings(data, size)
	if err != nil {
		return nil, fmt.Errorf("probe: cached links %s: %w", file, err)
	}
	return f, nil
}

// parseFindings reads the findings about the links of the given number of ranks, of which a graph can be made.
func parseFindings(data []byte, size int) (*Findings, error) {
	f := new(Findings)
	err := strict.UnmarshalJSON(data, f, strict.JSONLimits{Bytes: maxCached, Elements: topo.MaxLinks})
	if err == nil && len(f.Places) != size {
		err = fmt.Errorf("it is for %d ranks, not %d", len(f.Places), size)
	}
	if err == nil {
		err = f.Graph().Validate()
	}
	return f, err
}
