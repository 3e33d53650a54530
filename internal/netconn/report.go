package netconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// try is one path of a pair of ranks that could not connect.
type try struct {
	own, to int // indexes of the places in the two ranks' offers; none
	reason  string
}

// none stands for no place: there is no path.
const none = 0xff

// failedPair is a pair of ranks that could not connect.
type failedPair struct {
	from, to int
	tries    []try
}

// report is what a rank tells all others in the second exchange: to whom it
// could not connect.
//
//	version 1 | failures in all 4 | reasons 1 | each: 1+n bytes | pairs 2 |
//	each: to 4 | tries 1 | each: own place 1, their place 1, reason 1
type report struct {
	total int          // pairs that failed
	pairs []failedPair // some of them
}

const (
	reportVersion = 1
	maxReasons    = 32
	maxReason     = 160 // bytes
	maxPairs      = 64
	maxTries      = 4
)

var errReport = errors.New("what it tells is no list of failures")

func (r *report) encode() []byte {
	var reasons []string
	index := func(reason string) byte {
		reason = reason[:min(len(reason), maxReason)]
		i := slices.Index(reasons, reason)
		if i < 0 && len(reasons) < maxReasons {
			reasons = append(reasons, reason)
			i = len(reasons) - 1
		}
		return byte(max(i, 0)) // one of many reasons is as good as another
	}
	var body []byte
	pairs := r.pairs[:min(len(r.pairs), maxPairs)]
	for _, p := range pairs {
		tries := p.tries[:min(len(p.tries), maxTries)]
		body = binary.BigEndian.AppendUint32(body, uint32(p.to))
		body = append(body, byte(len(tries)))
		for _, t := range tries {
			body = append(body, byte(t.own), byte(t.to), index(t.reason))
		}
	}
	b := binary.BigEndian.AppendUint32([]byte{reportVersion}, uint32(r.total))
	b = append(b, byte(len(reasons)))
	for _, text := range reasons {
		b = append(append(b, byte(len(text))), text...)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(pairs)))
	return append(b, body...)
}

// decodeReport reads the report of rank from, of size ranks.
func decodeReport(b []byte, from, size int) (r report, err error) {
	if len(b) < 6 {
		return r, errReport
	}
	if b[0] != reportVersion {
		return r, fmt.Errorf("its list of failures has version %d, this one is %d", b[0], reportVersion)
	}
	r.total = int(binary.BigEndian.Uint32(b[1:]))
	n := int(b[5])
	b = b[6:]
	if n > maxReasons {
		return r, errReport
	}
	var reasons []string
	for range n {
		if len(b) < 1 || int(b[0]) > maxReason || len(b) < 1+int(b[0]) {
			return r, errReport
		}
		size := 1 + int(b[0])
		reasons = append(reasons, printable(b[1:size], maxReason))
		b = b[size:]
	}
	if len(b) < 2 {
		return r, errReport
	}
	pairs := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if pairs > maxPairs || pairs > r.total || r.total >= size {
		return r, errReport
	}
	for range pairs {
		var p failedPair
		if p, b, err = decodePair(b, from, size, reasons); err != nil {
			return r, err
		}
		r.pairs = append(r.pairs, p)
	}
	if len(b) > 0 {
		return r, errReport
	}
	return r, nil
}

// decodePair reads one pair and returns what follows it.
func decodePair(b []byte, from, size int, reasons []string) (p failedPair, rest []byte, err error) {
	if len(b) < 5 || int(b[4]) > maxTries || len(b) < 5+3*int(b[4]) {
		return p, nil, errReport
	}
	to := binary.BigEndian.Uint32(b)
	if uint64(to) >= uint64(size) {
		return p, nil, errReport
	}
	p = failedPair{from: from, to: int(to)}
	n := int(b[4])
	b = b[5:]
	for range n {
		if int(b[2]) >= len(reasons) {
			return p, nil, errReport
		}
		p.tries = append(p.tries, try{int(b[0]), int(b[1]), reasons[b[2]]})
		b = b[3:]
	}
	return p, b, nil
}
