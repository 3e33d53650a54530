// Package job holds the data that the launcher and a rank send each other: the job file, read once from an inherited
// descriptor, and the control messages on an inherited socket. It holds data and codecs only. The launcher
// (cmd/treerun) and package rank are its only users.
package job

import (
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

	ControlFD int               // unix stream socket to the launcher; its end of file means that the launcher is gone
	Settings  map[string]string // resolved settings, the same on all ranks
}

// FileVersion is the version of File and Message that this code implements.
const FileVersion = 8

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
)

// A rank that has read its job file, a memory file, leaves MarkBytes there at MarkAt, behind zeros: a word in which the
// kernel sets MarkDied when the process begins to end, and the number of that process.
const (
	MarkAt    = 4032
	MarkBytes = 8
	MarkDied  = 1 << 30 // FUTEX_OWNER_DIED
)

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
}

// Wait describes a long wait of a rank.
type Wait struct {
	For  time.Duration
	In   string // the call
	Last int    // rank at the end of the chain of waits, -1 if it is not a single rank
	Is   string // known facts about that rank, or another reason for the wait
	Text string // the same, with the chain of waits
}

// MaxMessage, MaxFile and MaxFailure bound the input of a decoder, in bytes. A job file may have a graph and a plan
// among its settings.
const (
	MaxMessage = 64 << 10
	MaxFile    = 80 << 20
	MaxFailure = 8 << 10 // the text of a Failed
)
