package datagram

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/treerun/treerun/transport/internal/intro"
)

// offer is what a rank tells the others first: where it listens, or why it cannot.
//
//	version 1 | failed 1 | random 32 | port of IPv4 2 | port of IPv6 2 | addresses 1 | each: length 1, 4 or 16 bytes
//
// and, of a rank that failed, the reason instead of everything behind failed. A
// port is 0 where there is no socket.
type offer struct {
	failed string
	nonce  [nonceBytes]byte
	ports  [2]uint16 // of IPv4, IPv6
	addrs  []netip.Addr
}

const (
	maxAddrs  = 32
	offerHead = nonceBytes + 4 + 1 // bytes behind version and failed
)

func (o *offer) encode() []byte {
	b := intro.Append(nil, version, o.failed)
	if o.failed != "" {
		return b
	}
	b = append(b, o.nonce[:]...)
	b = binary.BigEndian.AppendUint16(b, o.ports[0])
	b = binary.BigEndian.AppendUint16(b, o.ports[1])
	b = append(b, byte(len(o.addrs)))
	for _, a := range o.addrs {
		b = intro.AppendAddr(b, a)
	}
	return b
}

func decodeOffer(b []byte) (o offer, err error) {
	if b, o.failed, err = intro.Cut(b, version); err != nil || o.failed != "" {
		return o, err
	}
	if len(b) < offerHead || b[offerHead-1] > maxAddrs {
		return o, intro.Err
	}
	copy(o.nonce[:], b)
	o.ports = [2]uint16{binary.BigEndian.Uint16(b[nonceBytes:]), binary.BigEndian.Uint16(b[nonceBytes+2:])}
	n := int(b[offerHead-1])
	b = b[offerHead:]
	for range n {
		var a netip.Addr
		if a, b, err = intro.CutAddr(b); err != nil {
			return o, err
		}
		o.addrs = append(o.addrs, a)
	}
	if len(b) > 0 {
		return o, intro.Err
	}
	return o, nil
}

// decodeOffers decodes the blobs of the first exchange, one per rank.
func decodeOffers(blobs [][]byte, size int) ([]offer, error) {
	return intro.DecodeAll(blobs, size, func(b []byte) (offer, string, error) {
		o, err := decodeOffer(b)
		return o, o.failed, err
	})
}

// family returns the version of IP in which all ranks have addresses, 0 for IPv4
// and 1 for IPv6: the first one, if both will do.
func family(all []offer) (int, error) {
	var missing [2]int
	for f := range missing {
		missing[f] = slices.IndexFunc(all, func(o offer) bool { return o.ports[f] == 0 })
		if missing[f] < 0 {
			return f, nil
		}
	}
	return 0, fmt.Errorf("neither IPv4 nor IPv6 will do for all ranks: rank %d has no address of the first, rank %d none of the second (hint: --iface chooses the network devices)", missing[0], missing[1])
}

// suits tells whether an address is of a family, and one that a socket can send to
// without naming a device.
func suits(a netip.Addr, family int) bool {
	return a.Is4() == (family == 0) && !(a.Is6() && a.IsLinkLocalUnicast())
}

// report is what a rank tells the others in the end: which peers' datagrams, or
// proofs of its own, did not come. Each is a rank of 4 bytes.
func encodeReport(silent []int) []byte {
	b := []byte{version}
	for _, r := range silent {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func decodeReport(b []byte, size int) (silent []int, err error) {
	if len(b) < 1 || b[0] != version || len(b)%4 != 1 || len(b)/4 > size {
		return nil, fmt.Errorf("its report of %d bytes is none", len(b))
	}
	for b = b[1:]; len(b) > 0; b = b[4:] {
		r := binary.BigEndian.Uint32(b)
		if int64(r) >= int64(size) {
			return nil, fmt.Errorf("its report names rank %d of %d", r, size)
		}
		silent = append(silent, int(r))
	}
	return silent, nil
}
