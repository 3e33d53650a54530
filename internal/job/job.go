// Package job holds the data that the launcher and a rank send each other: the job file, read once from an inherited
// descriptor, and the control messages on an inherited socket. It holds data and codecs only. The launcher
// (cmd/treerun) and package rank are its only users.
package job

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Names of the environment variables that the launcher exports to every rank, in addition to the names that torchrun
// uses (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT). The secret is never among them.
const (
	EnvFD        = "TREERUN_JOB_FD" // descriptor number of the job file
	EnvJobID     = "TREERUN_JOB_ID"
	EnvRank      = "TREERUN_RANK"
	EnvSize      = "TREERUN_SIZE"
	EnvLocalRank = "TREERUN_LOCAL_RANK"
	EnvLocalSize = "TREERUN_LOCAL_SIZE"
	EnvDevice    = "TREERUN_DEVICE"   // UUID of the rank's GPU; not set for a rank without one
	EnvEpoch     = "TREERUN_EPOCH"    // number of restarts of the job, 0 if not set
	EnvSeed      = "TREERUN_SEED"     // HOST:PORT, for ranks that another launcher started
	EnvKeyFile   = "TREERUN_KEY_FILE" // path of the job key, mode 0600, for the same ranks
)

// Variable returns the name of the environment variable that passes the value of a flag of treerun, as
// TREERUN_PEER_TIMEOUT for peer-timeout, to ranks that another launcher started.
func Variable(flag string) string {
	return "TREERUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ErrSystem is the error of a job of several ranks on another system than Linux.
var ErrSystem = errors.New("jobs of several ranks need Linux (" + HintSystem + ")")

// HintSystem is the remedy for what needs Linux.
const HintSystem = "hint: a Linux container serves, as docker run -it -v .:/src -w /src golang:1.26; one rank runs " +
	"without treerun"

// ParseTime parses a time in the form of flags and variables: a number of seconds, or the form of time.ParseDuration.
func ParseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, numErr := strconv.ParseFloat(text, 64); numErr == nil && n <= 1e9 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return 0, errors.New("want a time, as 30, 2.5s, 15m or 2h")
	}
	return d, nil
}

// The minimum timeouts of these names. With a shorter peer timeout, a rank that waits for its core would be considered
// lost.
const (
	MinPeerTimeout  = 200 * time.Millisecond
	MinStallTimeout = 100 * time.Millisecond
)

// SecretBytes is the length of a job secret.
const SecretBytes = 32

// File is the job file of one rank: msgpack, read once from the descriptor
// that EnvFD names, which the rank then closes. Descriptors are numbers in the
// rank's process.
type File struct {
	Version   int // of this format; FileVersion
	JobID     string
	Epoch     int    // number of restarts of the job: ranks of different epochs refuse each other
	Secret    []byte // SecretBytes random bytes, the same for all ranks of the job
	Rank      int
	Size      int    // number of ranks, which are numbered from 0
	LocalRank int    // among the ranks of the host
	LocalSize int    // ranks of the host
	Host      string // name of this rank's host
	Device    string // UUID of this rank's GPU, "" for none
	Hosts     []int  // host index of every rank

	Events int // places for events in the recording of package record, behind the page of status; 0: none is wanted

	ControlFD int               // unix stream socket to the launcher; its end of file means that the launcher is gone
	Settings  map[string]string // resolved settings, the same on all ranks

	// Renews is true where the job goes on after the loss of a rank: ranks that take part send Renewable, and Renew after
	// each epoch. Joining is true for a rank that was started later: it begins with Renew, and its first world is that of
	// a Roster. Its Rank, Size and Hosts are those of the job's start, and its Rank is its origin.
	Renews, Joining bool

	// OtherHosts is true where ranks may be started on hosts that have none now.
	OtherHosts bool
}

// FileVersion is the version of File and Message that this code implements.
const FileVersion = 14

// MessageKind is the kind of a Message.
type MessageKind uint8

const (
	// From a rank to the launcher.
	Seed    MessageKind = iota + 1 // Addrs: where rank 0 listens
	Joined                         // the rank's world is complete
	Closing                        // the rank has closed its world in good order
	Waits                          // the rank has waited for Wait.For, and still does; 0: the wait is over

	// From the launcher to the ranks.
	SeedIs // Addrs: those of Seed
	// Rank has ended: Code or Signal, Text for messages; Closed reports whether it had sent Closing before. From a rank:
	// one of its calls has failed because another rank has ended.
	Exited

	// From a host to the launcher: the rank has ended, and the system is still reclaiming its memory. The way in which it
	// has ended is known after that.
	Dying

	// From a rank to the launcher: Text is a failure of a communicator that no call but Close has returned.
	Failed

	// From a rank to the launcher, before it joins: the rank renews its world after an epoch has ended.
	Renewable
	// From a rank to the launcher: the rank has left Epoch and is ready for a later one. Blob describes it to the other
	// ranks.
	Renew

	// From the launcher to the ranks: the epoch of Roster begins.
	Begins
	// From the launcher to the ranks: Epoch has ended, because rank Rank of the launcher's numbers has left it; Text for
	// messages.
	Revoked
	// From the launcher to the ranks: ranks wait to be taken in after Epoch.
	Waiting
	// From the launcher to the ranks: there will be no other epoch; Text says why.
	NoMore

	// From a host to a rank whose goroutine runs on a CPU: Stacks is wanted.
	Show
	// From a rank to its host: Text has the stacks of its goroutines, as runtime.Stack, cut.
	Stacks
)

// A rank that has read its job file, a memory file, leaves MarkBytes there at MarkAt, behind zeros: a word in which the
// kernel sets MarkDied when the process begins to end, and the number of that process.
const (
	MarkAt    = 4032
	MarkBytes = 8
	MarkDied  = 1 << 30 // FUTEX_OWNER_DIED

	// MarkWaited is FUTEX_WAITERS: the kernel also wakes a process that waits for the change.
	MarkWaited = 1 << 31
)

// StatusAt is where a page of package status begins in the same file.
const StatusAt = 4096

// News of losses reach a rank that polls through the same memory file: its polls may keep the goroutine that reads
// messages from its core for ten milliseconds. The host writes news into the ring at NewsAt, and then the number
// of all news so far at NewsCountAt. A rank finds the same in messages later, with more words.
const (
	NewsCountAt = 512
	NewsAt      = 1024
	NewsBytes   = 16 // of one
	NewsRing    = 128
	newsLost    = 1 << 24
)

// AppendNews appends the encoded form of m, an Exited of a rank that has failed or a Revoked, which is number n of the
// news, from 1.
func AppendNews(b []byte, m *Message, n uint32) []byte {
	what := uint32(m.Kind) | uint32(m.Code)<<8 | uint32(m.Signal)<<16
	if m.Lost {
		what |= newsLost
	}
	for _, word := range []uint32{n, uint32(m.Epoch), uint32(m.Rank), what} {
		b = binary.NativeEndian.AppendUint32(b, word)
	}
	return b
}

// ParseNews decodes news number n, nil if b holds another one, or none that is valid.
func ParseNews(b []byte, n uint32) *Message {
	var words [NewsBytes / 4]uint32
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	m := &Message{Kind: MessageKind(words[3]), Epoch: int(words[1]), Rank: int(words[2]),
		Code: int(words[3] >> 8 & 0xff), Signal: int(words[3] >> 16 & 0xff)}
	if words[3]&newsLost != 0 {
		m.Lost, m.Text = true, "has ended"
	}
	if words[0] != n || m.Kind != Exited && m.Kind != Revoked || m.Validate() != nil {
		return nil
	}
	return m
}

// Message is one record on the control socket: a frame of package strict with the message's kind and at most MaxMessage
// bytes of msgpack.
type Message struct {
	Kind   MessageKind
	Rank   int
	PID    int
	Code   int  // exit code, if Signal is 0
	Signal int  // number of the signal that ended the rank
	Closed bool // the rank had closed its world before it ended
	Lost   bool // the rank's host cannot be reached any more; Text describes the loss
	Text   string
	Addrs  []netip.AddrPort
	Wait   *Wait
	Epoch  int     // in which Exited happened: Rank is an origin; of Renew, Revoked and Waiting
	Blob   []byte  // of Renew
	Roster *Roster // of Begins
}

// Roster is the membership of an epoch. A member's rank is its index. Origins are the launcher's numbers: those of the
// first epoch's ranks, then those of ranks that were added.
type Roster struct {
	Epoch   int
	Secret  []byte // SecretBytes random bytes, instead of those of File
	Members []Member
	Lost    []int // origins of ranks that have been lost since the epoch before, in ascending order
	Joined  []int // likewise those of members that were not in the epoch before
}

// Member is a rank of a Roster.
type Member struct {
	Origin int
	Host   int    // number of the host; numbered in order of appearance
	Blob   []byte // of its Renew
}

// Wait describes a long wait of a rank.
type Wait struct {
	For  time.Duration
	In   string // the call
	Last int    // rank at the end of the chain of waits, -1 if it is not a single rank
	Is   string // known facts about that rank, or another reason for the wait
	Text string // the same, with the chain of waits
	// Least is how long a rank that is not stopped may keep others waiting here, whatever the stall timeout.
	Least time.Duration
}

// MaxMessage, MaxFile, MaxFailure and MaxBlob bound the input of a decoder, in bytes. A job file may have a graph and a
// plan among its settings.
const (
	MaxMessage = 64 << 10
	MaxFile    = 80 << 20
	MaxFailure = 8 << 10  // the text of a Failed
	MaxStacks  = 48 << 10 // that of a Stacks
	MaxBlob    = 4 << 10  // of a Renew
	maxRoster  = 64 << 20
)
