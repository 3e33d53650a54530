package job

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/strict"
)

var kindNames = [...]string{Seed: "seed", Joined: "joined", Closing: "closing", SeedIs: "seed is", Exited: "exited"}

// String is the name of the kind.
func (k MessageKind) String() string {
	if k >= Seed && k <= Exited {
		return kindNames[k]
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

// Limits of the fields of a File and a Message.
const (
	MaxRanks    = 1 << 16
	maxHost     = 255 // bytes
	maxDevice   = 128
	maxID       = 128
	maxSeeds    = 1024
	maxSeed     = 512
	maxSettings = 1024
	maxFD       = 1 << 20
	MaxEpoch    = 1 << 30
)

// NewSecret returns a new job secret of SecretBytes random bytes.
func NewSecret() ([]byte, error) {
	secret := make([]byte, SecretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("job: no random bytes for the secret: %w", err)
	}
	return secret, nil
}

// NewID returns a new job id: 13 random letters and digits, 65 bits.
func NewID() string { return strings.ToLower(rand.Text()[:13]) }

// WriteFile writes f, in one call of Write, once it is valid.
func WriteFile(w io.Writer, f *File) error {
	if err := f.Validate(); err != nil {
		return err
	}
	b, err := msgpack.Marshal(f)
	if err != nil {
		return fmt.Errorf("job: encoding the job file: %w", err)
	}
	if len(b) > MaxFile {
		return fmt.Errorf("job: job file of %d bytes, at most %d are possible", len(b), MaxFile)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("job: writing the job file: %w", err)
	}
	return nil
}

// ReadFile reads a job file up to its end and checks every field.
func ReadFile(r io.Reader) (*File, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("job: reading the job file: %w", err)
	}
	if len(b) > MaxFile {
		return nil, fmt.Errorf("job: the job file has more than %d bytes", MaxFile)
	}
	if len(b) == 0 {
		return nil, errors.New("job: the job file is empty: another program of this rank has read it before")
	}
	f := new(File)
	if err := strict.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("job: decoding the job file: %w (are launcher and program of the same version?)", err)
	}
	return f, f.Validate()
}

// Validate reports the first field that cannot be used.
func (f *File) Validate() error {
	switch {
	case f.Version != FileVersion:
		return fmt.Errorf("job: the job file has version %d, want %d: launcher and program come from different versions of "+
			"treerun", f.Version, FileVersion)
	case len(f.Secret) != SecretBytes:
		return fmt.Errorf("job: secret of %d bytes, want %d", len(f.Secret), SecretBytes)
	case f.Epoch < 0 || f.Epoch > MaxEpoch:
		return fmt.Errorf("job: epoch %d, want 0..%d", f.Epoch, MaxEpoch)
	case f.Size < 1 || f.Size > MaxRanks:
		return fmt.Errorf("job: size %d, want 1..%d", f.Size, MaxRanks)
	case f.Rank < 0 || f.Rank >= f.Size:
		return fmt.Errorf("job: rank %d of %d", f.Rank, f.Size)
	case f.LocalSize < 0 || f.LocalSize > f.Size:
		return fmt.Errorf("job: local size %d of %d ranks", f.LocalSize, f.Size)
	case f.LocalRank < 0 || f.LocalRank >= f.LocalSize:
		return fmt.Errorf("job: local rank %d of %d", f.LocalRank, f.LocalSize)
	case f.Host == "" || len(f.Host) > maxHost:
		return fmt.Errorf("job: host name of %d bytes, want 1..%d", len(f.Host), maxHost)
	case f.ControlFD < 3 || f.ControlFD > maxFD:
		return fmt.Errorf("job: control descriptor %d, want 3..%d", f.ControlFD, maxFD)
	}
	return errors.Join(CheckID(f.JobID), CheckDevice(f.Device), f.validateHosts(), f.validateSeeds(), f.validateSettings())
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }

// CheckID reports an id that no job can have.
func CheckID(id string) error {
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, unprintable) {
		return fmt.Errorf("job: job id %.40q, want 1 to %d printable characters without spaces", id, maxID)
	}
	return nil
}

// CheckDevice reports what cannot be the UUID of a GPU, or "" for none.
func CheckDevice(uuid string) error {
	if len(uuid) > maxDevice || strings.ContainsFunc(uuid, unprintable) {
		return fmt.Errorf("job: device %.40q, want the UUID of a GPU, at most %d printable characters without spaces", uuid,
			maxDevice)
	}
	return nil
}

func (f *File) validateHosts() error {
	if len(f.Hosts) != f.Size {
		return fmt.Errorf("job: hosts of %d ranks, want %d", len(f.Hosts), f.Size)
	}
	known, local := 0, 0
	for r, h := range f.Hosts {
		if h < 0 || h > known {
			return fmt.Errorf("job: rank %d is on host %d, want 0..%d: hosts are numbered in order of appearance", r, h, known)
		}
		if h == known {
			known++
		}
		if h == f.Hosts[f.Rank] {
			local++
		}
	}
	if local != f.LocalSize {
		return fmt.Errorf("job: local size %d, but %d ranks are on host %d", f.LocalSize, local, f.Hosts[f.Rank])
	}
	return nil
}

func (f *File) validateSeeds() error {
	if len(f.Seeds) > maxSeeds {
		return fmt.Errorf("job: %d seeds, at most %d are possible", len(f.Seeds), maxSeeds)
	}
	for _, s := range f.Seeds {
		if len(s) > maxSeed {
			return fmt.Errorf("job: seed of %d bytes, at most %d are possible", len(s), maxSeed)
		}
		if _, _, err := net.SplitHostPort(s); err != nil {
			return fmt.Errorf("job: seed %q: %w", s, err)
		}
	}
	return nil
}

func (f *File) validateSettings() error {
	if len(f.Settings) > maxSettings {
		return fmt.Errorf("job: %d settings, at most %d are possible", len(f.Settings), maxSettings)
	}
	if _, ok := f.Settings[""]; ok {
		return errors.New("job: a setting without a name")
	}
	return nil
}
