package job

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/strict"
)

// messageSizes holds the sizes of the frames of package strict that carry messages.
var messageSizes = strict.FrameSizes{}

func init() {
	for k := Seed; k <= Stacks; k++ {
		messageSizes[byte(k)] = [2]int{1, MaxMessage}
	}
	messageSizes[byte(Begins)] = [2]int{1, maxRoster}
}

// WriteMessage validates m and writes it, in one call of Write. Calls on one connection must not overlap.
func WriteMessage(w io.Writer, m *Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	body := strict.Marshal(m)
	err := Within("bytes of a message: %d", len(body), 1, messageSizes[byte(m.Kind)][1])
	if err == nil {
		_, err = w.Write(append(strict.AppendHead(nil, byte(m.Kind), len(body)), body...))
	}
	if err != nil {
		return fmt.Errorf("job: writing a message of kind %d: %w", m.Kind, err)
	}
	return nil
}

// ReadMessage reads one message and checks every field. The error is io.EOF, unwrapped, if r ends before the first byte
// of a message. After any error the stream must not be used.
func ReadMessage(r io.Reader) (*Message, error) {
	_, body, err := strict.ReadFrame(r, messageSizes)
	if err == io.EOF {
		return nil, err
	}
	m := new(Message)
	if err == nil {
		err = strict.Unmarshal(body, m)
	}
	if err != nil {
		return nil, fmt.Errorf("job: reading a message: %w (are launcher and program of the same version?)", err)
	}
	return m, m.Validate()
}

// Validate returns an error for the invalid fields.
func (m *Message) Validate() error {
	bad := errors.Join(Within("rank %d", m.Rank, 0, MaxRanks-1), Within("process id %d", m.PID, 0, math.MaxInt),
		Within("exit code %d", m.Code, 0, 255), Within("signal %d", m.Signal, 0, 255))
	if m.Kind == Seed || m.Kind == SeedIs {
		bad = errors.Join(bad, Within("%d addresses", len(m.Addrs), 1, MaxAddresses))
	}
	if m.Kind == Failed {
		bad = errors.Join(bad, Within("text of %d bytes", len(m.Text), 1, MaxFailure))
	}
	if m.Kind == Stacks {
		bad = errors.Join(bad, Within("stacks of %d bytes", len(m.Text), 1, MaxStacks))
	}
	for _, a := range m.Addrs {
		bad = errors.Join(bad, Within("port %d of an address", int(a.Port()), 1, math.MaxUint16))
	}
	if w := m.Wait; (w != nil) != (m.Kind == Waits) || w != nil && w.For < 0 {
		bad = errors.Join(bad, errors.New("no wait, one too many, or one of a negative time"))
	} else if w != nil {
		bad = errors.Join(bad, Within("waits for rank %d", w.Last, -1, MaxRanks-1))
	}
	bad = errors.Join(bad, Within("epoch %d", m.Epoch, 0, MaxEpoch), Within("blob of %d bytes", len(m.Blob), 0, MaxBlob))
	if (m.Roster != nil) != (m.Kind == Begins) {
		bad = errors.Join(bad, errors.New("no roster, or one too many"))
	} else if m.Roster != nil {
		bad = errors.Join(bad, m.Roster.validate())
	}
	switch {
	case m.Kind < Seed || m.Kind > Stacks:
		return fmt.Errorf("job: unknown message kind %d", m.Kind)
	case bad != nil:
		return fmt.Errorf("job: message of kind %d: %w", m.Kind, bad)
	}
	return nil
}

// validate returns an error for an invalid field.
func (r *Roster) validate() error {
	bad := errors.Join(Within("epoch %d of a roster", r.Epoch, 1, MaxEpoch),
		Within("secret of %d bytes", len(r.Secret), SecretBytes, SecretBytes),
		Within("members: %d", len(r.Members), 1, MaxRanks))
	origins, hosts := make([]int, len(r.Members)), make([]int, len(r.Members))
	for i, m := range r.Members {
		origins[i], hosts[i] = m.Origin, m.Host
		bad = cmp.Or(bad, Within("blob of %d bytes", len(m.Blob), 0, MaxBlob))
	}
	for _, list := range [][]int{origins, r.Lost, r.Joined} {
		bad = cmp.Or(bad, checkOrigins(list))
	}
	for _, o := range r.Joined {
		if _, found := slices.BinarySearch(origins, o); !found {
			bad = cmp.Or(bad, fmt.Errorf("origin %d has joined and is no member", o))
		}
	}
	return cmp.Or(bad, checkHosts(hosts))
}

// checkOrigins returns an error for origins that are not in ascending order.
func checkOrigins(list []int) error {
	before := -1
	for _, o := range list {
		if err := Within("origin %d", o, before+1, MaxRanks-1); err != nil {
			return err
		}
		before = o
	}
	return nil
}

// Within returns an error if n is out of range; what contains a verb for n.
func Within(what string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf(what+", want %d..%d", n, low, high)
	}
	return nil
}

// Limits of the fields of a File and a Message.
const (
	MaxRanks    = 1 << 16
	maxHost     = 255 // bytes
	maxDevice   = 128
	maxID       = 128
	maxSettings = 1024
	maxEvents   = 1 << 22
	maxFD       = 1 << 20
	MaxEpoch    = 1 << 30
)

// MaxAddresses is the maximum number of addresses of a host that its ranks offer to others. All messages and files with
// addresses have room for that number.
const MaxAddresses = 64

// NewSecret returns a new job secret of SecretBytes random bytes.
func NewSecret() []byte {
	secret := make([]byte, SecretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// NewID returns a new job id: 13 random letters and digits, 65 bits.
func NewID() string { return strings.ToLower(rand.Text()[:13]) }

// WriteFile validates f and writes it, in one call of Write.
func WriteFile(w io.Writer, f *File) error {
	if err := f.Validate(); err != nil {
		return err
	}
	b := strict.Marshal(f)
	err := Within("its bytes: %d", len(b), 1, MaxFile)
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
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
	if len(b) == 0 || b[0] == 0 { // apart from a mark
		return nil, errors.New("job: the job file is empty: another program of this rank has read it before")
	}
	f := new(File)
	if err := strict.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("job: decoding the job file: %w (are launcher and program of the same version?)", err)
	}
	return f, f.Validate()
}

// Validate returns an error for the invalid fields.
func (f *File) Validate() error {
	if f.Version != FileVersion {
		return fmt.Errorf("job: the job file has version %d, want %d: launcher and program come from different versions of "+
			"treerun", f.Version, FileVersion)
	}
	bad := errors.Join(
		Within("secret of %d bytes", len(f.Secret), SecretBytes, SecretBytes),
		Within("epoch %d", f.Epoch, 0, MaxEpoch),
		Within("size %d", f.Size, 1, MaxRanks),
		Within("hosts of %d ranks", len(f.Hosts), f.Size, f.Size),
		Within("rank %d", f.Rank, 0, f.Size-1),
		Within("local size %d", f.LocalSize, 1, f.Size),
		Within("local rank %d", f.LocalRank, 0, f.LocalSize-1),
		Within("host name of %d bytes", len(f.Host), 1, maxHost),
		Within("control descriptor %d", f.ControlFD, 3, maxFD),
		Within("settings: %d", len(f.Settings), 0, maxSettings),
		Within("events: %d", f.Events, 0, maxEvents),
		CheckID(f.JobID), CheckDevice(f.Device))
	if _, ok := f.Settings[""]; ok {
		bad = errors.Join(bad, errors.New("a setting without a name"))
	}
	if bad == nil {
		bad = f.validateHosts()
	}
	if bad != nil {
		return fmt.Errorf("job: the job file: %w", bad)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }

// CheckID returns an error if id is not valid as a job id.
func CheckID(id string) error {
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, unprintable) {
		return fmt.Errorf("job id %.40q, want 1 to %d printable characters without spaces", id, maxID)
	}
	return nil
}

// CheckDevice returns an error if uuid can be neither the UUID of a GPU nor "" for none.
func CheckDevice(uuid string) error {
	if len(uuid) > maxDevice || strings.ContainsFunc(uuid, unprintable) {
		return fmt.Errorf("device %.40q, want the UUID of a GPU, at most %d printable characters without spaces", uuid,
			maxDevice)
	}
	return nil
}

func (f *File) validateHosts() error {
	if err := checkHosts(f.Hosts); err != nil {
		return err
	}
	if local := numbers.GroupSizes(f.Hosts)[f.Rank]; local != f.LocalSize && !f.Joining {
		return fmt.Errorf("local size %d, but %d ranks are on host %d", f.LocalSize, local, f.Hosts[f.Rank])
	}
	return nil
}

// checkHosts returns an error for hosts, by rank, that are not numbered in order of appearance.
func checkHosts(hosts []int) error {
	known := 0
	for r, h := range hosts {
		if h < 0 || h > known {
			return fmt.Errorf("rank %d is on host %d, want 0..%d: hosts are numbered in order of appearance", r, h, known)
		}
		if h == known {
			known++
		}
	}
	return nil
}
