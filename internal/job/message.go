package job

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/strict"
)

// String is the name of the kind.
func (k MessageKind) String() string {
	switch k {
	case Seed:
		return "seed"
	case Joined:
		return "joined"
	case Closing:
		return "closing"
	case SeedIs:
		return "seed is"
	case Exited:
		return "exited"
	}
	return "message kind " + strconv.Itoa(int(k))
}

// WriteMessage writes m, in one call of Write, once it is valid. Calls on one
// connection must not overlap.
func WriteMessage(w io.Writer, m *Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	body, err := msgpack.Marshal(m)
	if err != nil {
		return fmt.Errorf("job: encoding a message (%v): %w", m.Kind, err)
	}
	if len(body) > MaxMessage {
		return fmt.Errorf("job: message (%v) of %d bytes, at most %d are possible", m.Kind, len(body), MaxMessage)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	if _, err := w.Write(append(b, body...)); err != nil {
		return fmt.Errorf("job: writing a message (%v): %w", m.Kind, err)
	}
	return nil
}

// ReadMessage reads one message and checks every field. The error is io.EOF,
// unwrapped, when r ends before the first byte of a message. After any error
// the stream is of no more use.
func ReadMessage(r io.Reader) (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("job: reading the length of a message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > MaxMessage {
		return nil, fmt.Errorf("job: message of %d bytes, want 1..%d", n, MaxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("job: reading a message of %d bytes: %w", n, err)
	}
	m := new(Message)
	if err := strict.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("job: decoding a message: %w (are launcher and program of the same version?)", err)
	}
	return m, m.Validate()
}

// Validate reports the first field that cannot be used.
func (m *Message) Validate() error {
	switch {
	case m.Kind < Seed || m.Kind > Exited:
		return fmt.Errorf("job: unknown %v", m.Kind)
	case m.Rank < 0 || m.Rank >= MaxRanks:
		return fmt.Errorf("job: message (%v) with rank %d, want 0..%d", m.Kind, m.Rank, MaxRanks-1)
	case m.PID < 0:
		return fmt.Errorf("job: message (%v) with process id %d", m.Kind, m.PID)
	case m.Code < 0 || m.Code > 255:
		return fmt.Errorf("job: message (%v) with exit code %d, want 0..255", m.Kind, m.Code)
	case m.Signal < 0 || m.Signal > 255:
		return fmt.Errorf("job: message (%v) with signal %d, want 0..255", m.Kind, m.Signal)
	case (m.Kind == Seed || m.Kind == SeedIs) && (m.Text == "" || len(m.Text) > maxSeed):
		return fmt.Errorf("job: message (%v) with an address of %d bytes, want 1..%d", m.Kind, len(m.Text), maxSeed)
	}
	return nil
}
