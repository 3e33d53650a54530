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

// bodies has one of each kind, which is its index. The first is none.
var bodies = []Body{
	nil, new(Join), new(Job), new(Signal), new(Finish), new(Ready), new(Result), new(Started), new(RankMessage),
	new(Ended), new(RanksExited), new(Lost), new(Note), new(Stream), new(Push), new(NodeHello),
}

// kindOf returns what kind of Body b is.
func kindOf(b Body) byte {
	same := func(other Body) bool { return reflect.TypeOf(other) == reflect.TypeOf(b) }
	return byte(slices.IndexFunc(bodies, same))
}

// blank returns an empty Body of a kind, to decode into.
func blank(k byte) Body { return reflect.New(reflect.TypeOf(bodies[k]).Elem()).Interface() }

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
		case *NodeHello, *Join, *Job, *Lost, *Started, *Ended:
			most = maxLarge
		}
		sizes[byte(k)] = [2]int{hostSize, hostSize + most}
	}
}

// Frame is one message with its sender, or with the one whom it is for.
type Frame struct {
	Host int // All or an index
	Body Body
}

// Append appends the frame as it travels to b. It panics on what is no Body. What goes into
// one has its limits from elsewhere; one that is too large all the same is refused where it
// arrives.
func (f *Frame) Append(b []byte) []byte {
	body := strict.Marshal(f.Body)
	b = strict.AppendHead(b, byte(kindOf(f.Body)), hostSize+len(body))
	return append(binary.BigEndian.AppendUint32(b, uint32(int32(f.Host))), body...)
}

// Read reads one frame, as strict.ReadFrame does, and checks it.
func Read(r io.Reader) (*Frame, error) {
	kind, body, err := strict.ReadFrame(r, sizes)
	if err != nil {
		return nil, err
	}
	f := &Frame{Host: int(int32(binary.BigEndian.Uint32(body))), Body: blank(kind)}
	if f.Host < All || f.Host >= job.MaxRanks {
		return nil, fmt.Errorf("frame for host %d", f.Host)
	}
	if err := strict.Unmarshal(body[hostSize:], f.Body); err != nil {
		return nil, fmt.Errorf("decode frame kind %d: %w", kind, err)
	}
	if c, ok := f.Body.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("frame kind %d: %w", kind, err)
		}
	}
	return f, nil
}
