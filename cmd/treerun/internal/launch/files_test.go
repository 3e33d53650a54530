//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRawFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, text := range []string{"longer than the next", "short"} {
		f, err := rawFile(dir, "rank.0", "stdout", false)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text)
		f.Close()
		if got, err := os.ReadFile(filepath.Join(dir, "rank.0", "stdout")); err != nil || string(got) != text {
			t.Errorf("the file holds %q, %v; want %q", got, err, text)
		}
	}
}

// Entries that another user has planted in a shared output folder are neither followed nor written: a file is replaced,
// a folder refused.
func TestPlantedInOutputDir(t *testing.T) {
	for name, plant := range map[string]func(dir, precious string) error{
		"link in place of the file": func(dir, precious string) error {
			return os.Symlink(precious, filepath.Join(dir, "rank.0", "stdout"))
		},
		"link in place of the folder": func(dir, precious string) error {
			os.Remove(filepath.Join(dir, "rank.0"))
			return os.Symlink(filepath.Dir(precious), filepath.Join(dir, "rank.0"))
		},
		"hard link": func(dir, precious string) error {
			return os.Link(precious, filepath.Join(dir, "rank.0", "stdout"))
		},
		"fifo": func(dir, _ string) error { return unix.Mkfifo(filepath.Join(dir, "rank.0", "stdout"), 0o600) },
		"file in place of the folder": func(dir, _ string) error {
			os.Remove(filepath.Join(dir, "rank.0"))
			return os.WriteFile(filepath.Join(dir, "rank.0"), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, precious := t.TempDir(), filepath.Join(t.TempDir(), "stdout")
			if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "rank.0"), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := plant(dir, precious); err != nil {
				t.Fatal(err)
			}
			f, err := rawFile(dir, "rank.0", "stdout", false)
			if err == nil {
				f.WriteString("output")
				f.Close()
			}
			if replaced := !strings.Contains(name, "folder"); replaced != (err == nil) {
				t.Errorf("replaced: %v, %v", !replaced, err)
			} else if replaced {
				info, err := os.Lstat(filepath.Join(dir, "rank.0", "stdout"))
				if got, _ := os.ReadFile(filepath.Join(dir, "rank.0", "stdout")); err != nil || !info.Mode().IsRegular() ||
					string(got) != "output" {
					t.Errorf("the file holds %q, %v", got, err)
				}
			} else if !strings.Contains(err.Error(), filepath.Join(dir, "rank.0")) {
				t.Errorf("the error does not name the file: %v", err)
			} else if !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("the error has no hint: %v", err)
			}
			if got, _ := os.ReadFile(precious); string(got) != "precious" {
				t.Errorf("the other file holds %q", got)
			}
		})
	}
}
