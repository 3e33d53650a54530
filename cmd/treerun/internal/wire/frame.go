package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"slices"

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
	hostSize = 4                   // bytes with the host, before what a frame carries
)

// sizes are those that the bodies of frames may have.
var sizes = make(strict.FrameSizes)

func init() {
	for k := 1; k < len(bodies); k++ {
		most := maxSmall
		switch bodies[k].(type) {
		case *Node, *Join, *Job, *Lost, *Started, *Ended:
			most = maxLarge
		}
		sizes[byte(k)] = [2]int{hostSize, hostSize + most}
	}
}

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
	return &Frame{Kind: kindOf(b), Host: host, Raw: strict.Marshal(b)}
}

// Append appends the frame as it travels to b.
func (f *Frame) Append(b []byte) []byte {
	b = strict.AppendHead(b, byte(f.Kind), hostSize+len(f.Raw))
	return append(binary.BigEndian.AppendUint32(b, uint32(int32(f.Host))), f.Raw...)
}

// Read reads one frame and checks its kind, size and host, as strict.ReadFrame does.
func Read(r io.Reader) (*Frame, error) {
	kind, body, err := strict.ReadFrame(r, sizes)
	if err != nil {
		return nil, err
	}
	f := &Frame{Kind: Kind(kind), Host: int(int32(binary.BigEndian.Uint32(body))), Raw: body[hostSize:]}
	if f.Host < All || f.Host >= job.MaxRanks {
		return nil, fmt.Errorf("frame for host %d", f.Host)
	}
	return f, nil
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
