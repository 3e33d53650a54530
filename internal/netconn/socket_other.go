//go:build !linux

package netconn

import (
	"net"
	"time"
)

func setUserTimeout(int, time.Duration) error { return nil } // keepalive probes alone have to do

func setBacklog(int, int) error { return nil }

func roundTrip(*net.TCPConn) (time.Duration, bool) { return 0, false }

// JumboSocket is Jumbo for a socket.
func JumboSocket(int) string { return "" }
