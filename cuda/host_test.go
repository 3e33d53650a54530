package cuda

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestHostGPUs(t *testing.T) {
	gpu := &fstest.MapFile{Data: []byte("Model: NVIDIA H200\n")}
	for _, c := range []struct {
		name string
		root fs.FS
		want int
	}{
		{"no driver", fstest.MapFS{"proc/version": gpu}, 0},
		{"driver without a GPU", fstest.MapFS{gpuFolder: &fstest.MapFile{Mode: fs.ModeDir}}, 0},
		{"two GPUs and a stray file", fstest.MapFS{
			gpuFolder + "/0000:17:00.0/information": gpu,
			gpuFolder + "/0000:b3:00.0/information": gpu,
			gpuFolder + "/notes":                    gpu,
		}, 2},
	} {
		n, err := hostGPUs(c.root)
		if n != c.want || err != nil {
			t.Errorf("%s: hostGPUs = %d, %v; want %d", c.name, n, err, c.want)
		}
	}
}

// forbidden is a file system in which nothing may be read.
type forbidden struct{}

func (forbidden) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestHostGPUsUnreadable(t *testing.T) {
	if n, err := hostGPUs(forbidden{}); n != 0 || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("hostGPUs = %d, %v; want 0 and the system's error", n, err)
	}
}
