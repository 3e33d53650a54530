package netconn

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// maxLines is how many lines about ranks an error has at most.
const maxLines = 32

// maxFailed is how much of a rank's error the others are told, in bytes.
const maxFailed = 1000

// errOffer is the error of a blob that is no offer.
var errOffer = errors.New("what it offers is no list of addresses")

// appendHead begins an offer: "version 1 | failed 1". Behind it stands what the rank
// offers; if it failed, the reason does, and no more may follow.
func appendHead(b []byte, version byte, failed string) []byte {
	if failed == "" {
		return append(b, version, 0)
	}
	return append(append(b, version, 1), failed[:min(len(failed), maxFailed)]...)
}

// cutHead returns what stands behind the beginning, or, of a rank that failed, why it
// did.
func cutHead(b []byte, version byte) (rest []byte, failed string, err error) {
	switch {
	case len(b) < 2:
		return nil, "", errOffer
	case b[0] != version:
		return nil, "", fmt.Errorf("its list of addresses has version %d, this one is %d (hint: all ranks must run the same build)", b[0], version)
	case b[1] == 1:
		if failed = printable(b[2:], maxFailed); failed == "" {
			failed = "failed for an unknown reason"
		}
		return nil, failed, nil
	case b[1] != 0:
		return nil, "", errOffer
	}
	return b[2:], "", nil
}

// appendAddr appends an address: "length 1 | 4 or 16 bytes".
func appendAddr(b []byte, a netip.Addr) []byte {
	s := a.AsSlice()
	return append(append(b, byte(len(s))), s...)
}

// cutAddr returns the address at the beginning of b, at which somebody can listen,
// and what stands behind it.
func cutAddr(b []byte) (a netip.Addr, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return a, nil, errOffer
	}
	n := 1 + int(b[0])
	a, ok := netip.AddrFromSlice(b[1:n])
	if !ok || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() {
		return a, nil, errOffer
	}
	return a, b[n:], nil
}

// printable returns what may be shown of text that came from outside, in one line
// and from at most limit bytes.
func printable(b []byte, limit int) string {
	text := strings.ToValidUTF8(string(b[:min(len(b), limit)]), "?")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case unicode.IsControl(r):
			return '?'
		}
		return r
	}, text)
}

// decodeAll decodes the offers of all ranks, each with decode, which also returns
// why the rank failed, if it did. The error, the same on all ranks, lists the ranks
// that cannot take part, and why.
func decodeAll[T any](blobs [][]byte, size int, decode func(b []byte) (o T, failed string, err error)) ([]T, error) {
	if len(blobs) != size {
		return nil, fmt.Errorf("the exchange gave %d blobs for %d ranks", len(blobs), size)
	}
	all := make([]T, size)
	var bad []string
	for r, b := range blobs {
		o, failed, err := decode(b)
		if err != nil {
			failed = err.Error()
		}
		if failed != "" {
			bad = append(bad, fmt.Sprintf("rank %d: %s", r, failed))
		}
		all[r] = o
	}
	if bad != nil {
		return nil, summary(bad)
	}
	return all, nil
}

// summary is the error that lines about ranks make, of which there may be very many.
func summary(lines []string) error {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(lines[:maxLines:maxLines], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(lines, "; "))
}
