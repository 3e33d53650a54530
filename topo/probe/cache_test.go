package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A Cache keeps the newest files, also where several jobs write at the same time, and leaves files of other kinds
// alone.
func TestCacheIsPruned(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	start := time.Now().Add(-time.Hour)
	for i := range maxFiles + 20 {
		file := filepath.Join(c.Dir, fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, start, start.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(c.Dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var jobs sync.WaitGroup
	for i := range 10 {
		jobs.Go(func() {
			if err := c.Write(filepath.Join(c.Dir, fmt.Sprintf("new%d.json", i)), []byte("{}")); err != nil {
				t.Error(err)
			}
		})
	}
	jobs.Wait()
	files, err := filepath.Glob(filepath.Join(c.Dir, "*.json"))
	if err != nil || len(files) != maxFiles {
		t.Errorf("%d files are kept, want %d (%v)", len(files), maxFiles, err)
	}
	for name, want := range map[string]bool{"29.json": false, "30.json": true, "new0.json": true, "new9.json": true} {
		if _, err := os.Stat(filepath.Join(c.Dir, name)); (err == nil) != want {
			t.Errorf("%s is kept: %v, want %v", name, err == nil, want)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
