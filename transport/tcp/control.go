package tcp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/treerun/treerun/transport"
)

// version is that of the frames; ranks of different versions find out at the
// first frame.
const version = 2

// hello is the body of the first frame: both ends must mean the same.
type hello struct {
	version, src, dst, stream, streams uint32
	layout                             [sha256.Size]byte
}

const helloBytes = 5*4 + sha256.Size

func (h *hello) encode() []byte {
	b := make([]byte, 0, helloBytes)
	for _, v := range []uint32{h.version, h.src, h.dst, h.stream, h.streams} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, h.layout[:]...)
}

// check compares the body of a hello frame with what is due.
func (h *hello) check(body []byte) error {
	if len(body) != helloBytes {
		return fmt.Errorf("%w: hello of %d bytes, want %d", transport.ErrCorrupt, len(body), helloBytes)
	}
	for i, f := range []struct {
		name string
		want uint32
	}{{"version", h.version}, {"rank", h.src}, {"rank", h.dst}, {"stream", h.stream}, {"number of streams", h.streams}} {
		if got := binary.LittleEndian.Uint32(body[4*i:]); got != f.want {
			return fmt.Errorf("%w: hello with %s %d, want %d", transport.ErrCorrupt, f.name, got, f.want)
		}
	}
	if [sha256.Size]byte(body[20:]) != h.layout {
		return fmt.Errorf("%w: it has another layout of links; all ranks need the same settings and the same version",
			transport.ErrCorrupt)
	}
	return nil
}

// layoutDigest is taken over fixed-size numbers; the order of the links does
// not matter.
func layoutDigest(l *transport.Layout) [sha256.Size]byte {
	links := slices.Clone(l.Links)
	slices.SortFunc(links, transport.Link.Compare)
	b := make([]byte, 0, 64+24*len(links))
	for _, v := range []int{version, l.Size, l.Slots, l.SlotBytes, len(links)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	for _, k := range links {
		for _, v := range []int{k.Lane, k.Src, k.Dst} {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	}
	return sha256.Sum256(b)
}

// remembered is how many calls a status frame may hold.
const remembered = transport.History + 1

// The body of a status frame: the number of calls that the rank has entered so
// far, 8 bytes, and the latest of them, the oldest first.

func encodeStatus(to []byte, total uint64, calls []transport.Header) []byte {
	to = binary.LittleEndian.AppendUint64(to, total)
	for i := range calls {
		var b [callBytes]byte
		putCall(b[:], &calls[i])
		to = append(to, b[:]...)
	}
	return to
}

// decodeStatus returns the number of all calls, and how many of them were put
// into calls.
func decodeStatus(body []byte, calls *[remembered]transport.Header) (total uint64, n int, err error) {
	if len(body) < 8 || (len(body)-8)%callBytes != 0 || (len(body)-8)/callBytes > remembered {
		return 0, 0, fmt.Errorf("%w: status of %d bytes", transport.ErrCorrupt, len(body))
	}
	total = binary.LittleEndian.Uint64(body)
	n = (len(body) - 8) / callBytes
	if uint64(n) > total {
		return 0, 0, fmt.Errorf("%w: status with %d calls of %d", transport.ErrCorrupt, n, total)
	}
	for i := range n {
		getCall(body[8+i*callBytes:], &calls[i])
	}
	return total, n, nil
}

// report is a fault on its way to all ranks.
type report struct {
	by      int // the rank that reports it
	decided bool
	fault   transport.Fault
}

const reportBytes = 20 // without the text

func (r *report) encode() []byte {
	text := cutText(r.fault.Text, transport.MaxFaultText)
	b := make([]byte, 0, reportBytes+len(text))
	decided := uint32(0)
	if r.decided {
		decided = 1
	}
	for _, v := range []uint32{uint32(r.by), decided, uint32(r.fault.Kind), uint32(int32(r.fault.Rank)),
		uint32(len(text))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, text...)
}

// decodeReport reads the body of a fault frame of a set of size ranks.
func decodeReport(body []byte, size int) (report, error) {
	if len(body) < reportBytes || len(body) > reportBytes+transport.MaxFaultText {
		return report{}, fmt.Errorf("%w: fault of %d bytes", transport.ErrCorrupt, len(body))
	}
	by, decided := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:])
	kind := binary.LittleEndian.Uint32(body[8:])
	rank, n := int(int32(binary.LittleEndian.Uint32(body[12:]))), binary.LittleEndian.Uint32(body[16:])
	if uint64(by) >= uint64(size) || decided > 1 || kind > math.MaxUint8 || !transport.FaultKind(kind).Known() ||
		rank < -1 || rank >= size || int64(n) != int64(len(body)-reportBytes) {
		return report{}, fmt.Errorf("%w: fault of kind %d, of rank %d, by rank %d, with %d bytes of text",
			transport.ErrCorrupt, kind, rank, by, n)
	}
	return report{by: int(by), decided: decided == 1,
		fault: transport.Fault{Kind: transport.FaultKind(kind), Rank: rank, Text: string(body[reportBytes:])}}, nil
}

// cutText cuts s to at most n bytes, between characters.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
