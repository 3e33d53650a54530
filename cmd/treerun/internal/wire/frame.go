package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// Kind says what a frame carries.
type Kind uint8

// bodies has one of each kind, which is its index. The first is none.
var bodies = []Body{
	nil, new(Join), new(Job), new(Signal), new(Finish), new(Ready), new(Result), new(Started), new(RankMessage),
	new(Ended), new(RanksExited), new(Lost), new(Goodbye), new(Note), new(Stream), new(Push), new(Node),
}

// kindOf returns what kind of Body b is.
func kindOf(b Body) Kind {
	same := func(other Body) bool { return reflect.TypeOf(other) == reflect.TypeOf(b) }
	return Kind(slices.IndexFunc(bodies, same))
}

// blank returns an empty Body of a kind, to decode into.
func blank(k Kind) Body { return reflect.New(reflect.TypeOf(bodies[k]).Elem()).Interface() }

// All, in place of a host's index, stands for every host.
const All = -1

// Limits of what a decoder accepts.
const (
	maxLarge = job.MaxFile + 8<<20 // bytes of a frame with a Join, a Job or a Lost
	maxSmall = 72 << 10            // bytes of any other: those with text of a rank have the most
	header   = 4 + 1 + 4           // length of the rest, kind, host
)

// Frame is one message with its sender, or with the one whom it is for. Who only
// passes it on need not decode the Body.
type Frame struct {
	Kind Kind
	Host int // All or an index
	Raw  []byte
}

// Encode makes a frame. It panics on what is no Body. What goes into one has its limits from
// elsewhere; one that is too large all the same is refused where it arrives.
func Encode(host int, b Body) *Frame {
	raw, err := msgpack.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("wire: %T: %v", b, err))
	}
	return &Frame{Kind: kindOf(b), Host: host, Raw: raw}
}

// most returns how many bytes the frame's body may have.
func (f *Frame) most() int {
	switch bodies[f.Kind].(type) {
	case *Node, *Join, *Job, *Lost, *Started, *Ended:
		return maxLarge
	}
	return maxSmall
}

// Append appends the frame as it travels to b.
func (f *Frame) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(header-4+len(f.Raw)))
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(f.Host)))
	return append(b, f.Raw...)
}

// Read reads one frame and checks its head. The error is io.EOF, unwrapped, when
// r ends before the first byte. After any error the stream is of no more use.
func Read(r io.Reader) (*Frame, error) {
	var head [header]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	f := &Frame{Kind: Kind(head[4]), Host: int(int32(binary.BigEndian.Uint32(head[5:])))}
	n := int64(binary.BigEndian.Uint32(head[:])) - (header - 4)
	switch {
	case f.Kind == 0 || int(f.Kind) >= len(bodies):
		return nil, fmt.Errorf("unknown frame kind %d", f.Kind)
	case f.Host < All || f.Host >= job.MaxRanks:
		return nil, fmt.Errorf("frame for host %d", f.Host)
	case n < 0 || n > int64(f.most()):
		return nil, fmt.Errorf("frame kind %d of %d bytes, at most %d are possible", f.Kind, n, f.most())
	}
	var err error
	if f.Raw, err = io.ReadAll(io.LimitReader(r, n)); err == nil && len(f.Raw) < int(n) { // allocates what comes
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// Decode returns what the frame carries, checked.
func (f *Frame) Decode() (Body, error) {
	b := blank(f.Kind)
	if err := strict.Unmarshal(f.Raw, b); err != nil {
		return nil, fmt.Errorf("decode frame kind %d: %w", f.Kind, err)
	}
	if c, ok := b.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("frame kind %d: %w", f.Kind, err)
		}
	}
	return b, nil
}

// Is tells whether the frame carries what b is.
func (f *Frame) Is(b Body) bool { return f.Kind == kindOf(b) }
