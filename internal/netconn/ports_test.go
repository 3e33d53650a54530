//go:build linux

package netconn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestParsePorts(t *testing.T) {
	for _, text := range []string{"40000-40050", "1-65535", "7-7"} {
		if r, err := ParsePorts(text); err != nil || r.String() != text || r.Count() != r.Hi-r.Lo+1 {
			t.Errorf("%s: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "7", "9-8", "0-8", "1-65536", "1-2-3", "+1-2", "-", "a-b",
		strings.Repeat("9", 100)} {
		if r, err := ParsePorts(text); err == nil || r.Count() != 0 || len(err.Error()) > 150 {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

// Ports are tried one after the other, from a different one on for each rank.
func TestListenIn(t *testing.T) {
	var tried []uint16
	busy := fmt.Errorf("listen: %w", syscall.EADDRINUSE)
	try := func(r PortRange, first int, errs ...error) (string, error) {
		tried = nil
		return ListenIn(r, first, func(port uint16) (string, error) {
			tried = append(tried, port)
			err := errs[0]
			errs = errs[1:]
			return fmt.Sprint("at ", port), err
		})
	}
	if l, err := try(PortRange{}, 5, nil); l != "at 0" || err != nil {
		t.Errorf("any port: %q, %v", l, err)
	}
	if l, err := try(PortRange{10, 12}, 4, busy, busy, nil); l != "at 10" || err != nil ||
		!slices.Equal(tried, []uint16{11, 12, 10}) {
		t.Errorf("%q, %v after %v", l, err, tried)
	}
	if _, err := try(PortRange{10, 11}, -1, busy, busy); !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "all ports from 10 to 11 are taken") {
		t.Error(err)
	}
	if _, err := try(PortRange{10, 12}, 0, syscall.EACCES); !errors.Is(err, syscall.EACCES) || len(tried) != 1 {
		t.Errorf("%v after %v", err, tried)
	}
}
