//go:build linux

package netconn

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every connection, on both sides, has the options that detect a lost host.
func TestSocketOptions(t *testing.T) {
	for _, m := range mustConnect(t, 2, func(cfg *Config) { cfg.PeerTimeout = 7 * time.Second }) {
		for _, p := range m.Peers() {
			raw, err := m.Conn(p).TCP().SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) {
				for name, o := range map[string]struct{ level, option, want int }{
					"TCP_USER_TIMEOUT": {syscall.IPPROTO_TCP, 0x12, 7000},
					"TCP_NODELAY":      {syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
					"SO_KEEPALIVE":     {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
					"TCP_KEEPIDLE":     {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 3},
					"TCP_KEEPINTVL":    {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 2},
				} {
					if got, err := syscall.GetsockoptInt(int(fd), o.level, o.option); err != nil || got != o.want {
						t.Errorf("%s is %d, %v, want %d", name, got, err, o.want)
					}
				}
			})
		}
	}
}

// The longest peer timeout that the system allows is accepted, and a longer one is refused on all ranks.
func TestLongPeerTimeout(t *testing.T) {
	mustConnect(t, 2, func(cfg *Config) { cfg.PeerTimeout = maxPeerTimeout })
	const want = "a peer timeout of 27h18m21.000000001s, at most 27h18m21s is possible"
	_, errs := connect(t, 2, func(cfg *Config) { cfg.PeerTimeout = maxPeerTimeout + 1 })
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, syscall.EINVAL) {
			t.Errorf("rank %d: %v, want %q", r, err, want)
		}
	}
}
