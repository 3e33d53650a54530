package rank

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/treerun/treerun/internal/netconn"
)

// pair is a TCP listener and a UDP socket with the same port number.
type pair struct {
	tcp *net.TCPListener
	udp *net.UDPConn
}

// listen opens a pair at addr: at port if that is not 0, else at a port of the range.
// The ranks of a host begin at different places of the range, and none takes the port
// taken.
func listen(addr netip.Addr, port int, among netconn.PortRange, localRank, taken int) (pair, error) {
	if port != 0 {
		return listenAt(netip.AddrPortFrom(addr, uint16(port)))
	}
	return netconn.ListenIn(among, localRank, func(port uint16) (pair, error) {
		switch int(port) {
		case 0:
			return listenAnywhere(addr)
		case taken:
			return pair{}, syscall.EADDRINUSE
		}
		return listenAt(netip.AddrPortFrom(addr, port))
	})
}

func listenAnywhere(addr netip.Addr) (pair, error) {
	for attempt := 1; ; attempt++ {
		p, err := listenAt(netip.AddrPortFrom(addr, 0))
		// The kernel chose the number for TCP only.
		if err == nil || attempt == 20 || !errors.Is(err, syscall.EADDRINUSE) {
			return p, err
		}
	}
}

func listenAt(at netip.AddrPort) (pair, error) {
	// Without a host, Go listens at all addresses of the families that there are.
	tcp := &net.TCPAddr{Port: int(at.Port())}
	if !at.Addr().IsUnspecified() {
		tcp = net.TCPAddrFromAddrPort(at)
	}
	ln, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return pair{}, err
	}
	port := ln.Addr().(*net.TCPAddr).Port
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: tcp.IP, Port: port, Zone: tcp.Zone})
	if err != nil {
		ln.Close()
		return pair{}, err
	}
	return pair{ln, udp}, nil
}
