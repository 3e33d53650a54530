package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/treerun/treerun/topo"
)

// Store writes g to file, whole or not at all. A process that is killed
// meanwhile leaves nothing, where the file system knows files without a name.
func (c Cache) Store(file string, g *topo.Graph) error {
	data, err := g.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("probe: keeping the graph: %w", err)
	}
	return store(file, data)
}

// store writes a file, whole or not at all.
func store(file string, data []byte) error {
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = storeUnnamed(file, data)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = storeNamed(file, data)
	}
	if err != nil {
		return fmt.Errorf("probe: keeping what was measured: %w", err)
	}
	return nil
}

const (
	temporary  = ".graph-"   // how the names of temporary files begin
	staleAfter = time.Minute // then a temporary file is nobody's any more
)

// storeNamed writes a temporary file and renames it. What killed processes have
// left of theirs is removed.
func storeNamed(file string, data []byte) error {
	dir := filepath.Dir(file)
	stale, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
	if err != nil {
		return err
	}
	for _, name := range stale {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(name) // another process may do the same
		}
	}
	tmp, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
