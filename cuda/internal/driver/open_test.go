//go:build cgo && linux

package driver

import (
	"errors"
	"strings"
	"testing"
)

// TestOpenOtherLibraries: a library that is not a driver is refused, with a reason, and nothing of it is kept.
func TestOpenOtherLibraries(t *testing.T) {
	for _, c := range []struct{ library, want string }{
		{"/nonexistent/libcuda.so.1", "cannot open shared object file"},
		{"libc.so.6", "no cuInit"},
		{"/proc/self/status", "invalid ELF header"},
		{strings.Repeat("x/", 3000), "x/x/"}, // longer than the text has room for
	} {
		version, err := open(c.library)
		var e *OpenError
		if !errors.As(err, &e) || version != 0 || e.Result != Success || e.Version != 0 {
			t.Errorf("open(%.40q) = %d, %#v; want an OpenError of no call", c.library, version, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("open(%.40q): %v; want %q in it", c.library, err, c.want)
		}
	}
	if name, text := ErrorText(OutOfMemory); name != "CUDA_ERROR_2" || text == "" {
		t.Errorf("ErrorText without a driver: %q, %q", name, text)
	}
}
