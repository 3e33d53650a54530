package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/rank/job"
	"github.com/treerun/treerun/rank/strict"
)

// Kind says what a frame carries.
type Kind uint8

const (
	kindAlive Kind = iota + 1
	kindJoin
	kindJob
	kindTell
	kindStop
	kindKill
	kindSignal
	kindInput
	kindTaken
	kindFinish
	kindPush
	kindPause
	kindReady
	kindRefused
	kindStarted
	kindOutput
	kindSaid
	kindSilent
	kindEnded
	kindOver
	kindConsumed
	kindLost
	kindBye
	kindTrace
	kindAsked
	kindResult
	kindNote
	kinds
)

// blank returns an empty Body of a kind, to decode into.
func blank(k Kind) Body {
	switch k {
	case kindAlive:
		return new(Alive)
	case kindJoin:
		return new(Join)
	case kindJob:
		return new(Job)
	case kindTell:
		return new(Tell)
	case kindStop:
		return new(Stop)
	case kindKill:
		return new(Kill)
	case kindSignal:
		return new(Signal)
	case kindInput:
		return new(Input)
	case kindTaken:
		return new(Taken)
	case kindFinish:
		return new(Finish)
	case kindPush:
		return new(Push)
	case kindPause:
		return new(Pause)
	case kindReady:
		return new(Ready)
	case kindRefused:
		return new(Refused)
	case kindStarted:
		return new(Started)
	case kindOutput:
		return new(Output)
	case kindSaid:
		return new(Said)
	case kindSilent:
		return new(Silent)
	case kindEnded:
		return new(Ended)
	case kindOver:
		return new(Over)
	case kindConsumed:
		return new(Consumed)
	case kindLost:
		return new(Lost)
	case kindBye:
		return new(Bye)
	case kindTrace:
		return new(Trace)
	case kindAsked:
		return new(Asked)
	case kindResult:
		return new(Result)
	case kindNote:
		return new(Note)
	}
	return nil
}

func (*Alive) kind() Kind    { return kindAlive }
func (*Join) kind() Kind     { return kindJoin }
func (*Job) kind() Kind      { return kindJob }
func (*Tell) kind() Kind     { return kindTell }
func (*Stop) kind() Kind     { return kindStop }
func (*Kill) kind() Kind     { return kindKill }
func (*Signal) kind() Kind   { return kindSignal }
func (*Input) kind() Kind    { return kindInput }
func (*Taken) kind() Kind    { return kindTaken }
func (*Finish) kind() Kind   { return kindFinish }
func (*Push) kind() Kind     { return kindPush }
func (*Pause) kind() Kind    { return kindPause }
func (*Ready) kind() Kind    { return kindReady }
func (*Refused) kind() Kind  { return kindRefused }
func (*Started) kind() Kind  { return kindStarted }
func (*Output) kind() Kind   { return kindOutput }
func (*Said) kind() Kind     { return kindSaid }
func (*Silent) kind() Kind   { return kindSilent }
func (*Ended) kind() Kind    { return kindEnded }
func (*Over) kind() Kind     { return kindOver }
func (*Consumed) kind() Kind { return kindConsumed }
func (*Lost) kind() Kind     { return kindLost }
func (*Bye) kind() Kind      { return kindBye }
func (*Trace) kind() Kind    { return kindTrace }
func (*Asked) kind() Kind    { return kindAsked }
func (*Result) kind() Kind   { return kindResult }
func (*Note) kind() Kind     { return kindNote }

// All, in place of a host's index, stands for every host.
const All = -1

// Limits of what a decoder accepts.
const (
	maxLarge = job.MaxFile + 8<<20 // bytes of a frame with a Join, a Job or a Lost
	maxSmall = 192 << 10           // bytes of any other
	maxText  = 64 << 10
	header   = 4 + 1 + 4 // length of the rest, kind, host
)

// Frame is one message with its sender, or with the one whom it is for. Who only
// passes it on need not decode the Body.
type Frame struct {
	Kind Kind
	Host int // All or an index
	Raw  []byte
}

// Encode makes a frame.
func Encode(host int, b Body) (*Frame, error) {
	raw, err := msgpack.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode frame kind %d: %w", b.kind(), err)
	}
	f := &Frame{Kind: b.kind(), Host: host, Raw: raw}
	if n := len(raw); n > f.most() {
		return nil, fmt.Errorf("frame kind %d of %d bytes, at most %d are possible", f.Kind, n, f.most())
	}
	return f, nil
}

// most returns how many bytes the frame's body may have.
func (f *Frame) most() int {
	switch f.Kind {
	case kindJoin, kindJob, kindLost, kindStarted, kindEnded:
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
	case f.Kind == 0 || f.Kind >= kinds:
		return nil, fmt.Errorf("unknown frame kind %d", f.Kind)
	case f.Host < All || f.Host >= job.MaxRanks:
		return nil, fmt.Errorf("frame for host %d", f.Host)
	case n < 0 || n > int64(f.most()):
		return nil, fmt.Errorf("frame kind %d of %d bytes, at most %d are possible", f.Kind, n, f.most())
	}
	// What was announced is not allocated before it comes.
	var err error
	if f.Raw, err = readAll(r, int(n)); err != nil {
		return nil, err
	}
	return f, nil
}

func readAll(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, 64<<10))
	for len(b) < n {
		at := len(b)
		b = append(b, make([]byte, min(n-at, max(at, 64<<10)))...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}

// Decode returns what the frame carries, checked.
func (f *Frame) Decode() (Body, error) {
	b := blank(f.Kind)
	if b == nil {
		return nil, fmt.Errorf("unknown frame kind %d", f.Kind)
	}
	if err := strict.Unmarshal(f.Raw, b); err != nil {
		return nil, fmt.Errorf("decode frame kind %d: %w", f.Kind, err)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("frame kind %d: %w", f.Kind, err)
	}
	return b, nil
}

// Is tells whether the frame carries what b is.
func (f *Frame) Is(b Body) bool { return f.Kind == b.kind() }
