//go:build linux

// Package wire defines the messages between the launcher and the hosts of a job: the orders that go out to a host and
// the reports that come back. On the launcher's own host they are passed as values; between hosts they travel as frames
// on the stdin and stdout of an agent. It holds data and codecs only. Only the packages below cmd/treerun import it.
package wire

import (
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
)

// Body is the content of a frame: an order, a report, or neither. Bodies are pointers to values that stay unchanged
// once they have been passed on. A Body that can be invalid has a method check, for data from outside.
type Body any

// Orders: messages from the launcher to a host. Fields that no comment names may have the zero value.
type (
	// Join is the first order: the host's place in the job, and the hosts below it in the tree of agents. It holds
	// nothing secret.
	Join struct {
		Index       int    // of the host
		Name        string // as the user gave it
		Program     string // as the user gave it
		Path        string // of the program, absolute; "": it is pushed
		Dir         string // working directory
		PeerTimeout time.Duration
		Start       AgentOptions // how the hosts below are started
		Below       []Below
		Verbose     bool
	}

	// AgentOptions describes how agents are started.
	AgentOptions struct {
		Command []string      // of an agent, {host} stands for the host's name; empty: ssh
		Lines   bool          // Command passes on the output of the agent by lines
		SSHArgs []string      // further arguments of ssh
		Treerun string        // path of treerun on the other hosts; ignored when Push is set. Launch sets it
		Push    bool          // treerun itself is sent
		FanOut  int           // maximum number of agents that one process starts
		Timeout time.Duration // until an agent answers
	}

	// Below is a host further down in the tree.
	Below struct {
		Index  int
		Name   string
		Target string // the name for ssh, or for the launch agent
	}

	// Run describes the program: every host runs the ranks for which File.Hosts has its index.
	Run struct {
		File     job.File      // the common part of all ranks' job files
		Args     []string      // of each rank, from argv[0] on
		Parts    []Part        // of a job of several programs, in the order of their ranks; empty: all ranks run Args
		Env      []string      // NAME=VALUE, added to the host's own environment
		Machines []int         // by host: those with the same number share cores; empty: none do
		Cores    cores.Request // of each host
		GPUs     gpus.Request  // likewise
		Master   string        // MASTER_ADDR
		Port     int           // MASTER_PORT
		Stdin    int           // the rank that reads the launcher's stdin, or StdinNone, StdinAll; a stream on another host
		Again    bool          // a rank may start anew: its next process reads the rest of stdin
		Memory   int64         // that each rank may use, in bytes; 0: any
		Debug    []int         // ranks that run under a debugger, in ascending order

		OneOutput      bool // the stderr of a rank is its stdout
		ReportBindings bool // a Note for each rank
	}

	// Spawn starts one more process for a rank of the host, where the Run's File.Renews is set.
	Spawn struct {
		Rank    int
		Attempt int // number of processes that the rank had before
		Epoch   int // the latest one
	}

	// Replace has a host that has no ranks take the place of another one, which is lost: Spawns of its ranks follow, or
	// a Run.
	Replace struct{ Lost int }

	// Kill ends one process of a rank that keeps others waiting.
	Kill struct {
		Rank, Attempt int
		IfStopped     bool   // only if it is stopped, though not by the terminal
		Why           string // for messages

		// Grace, unless it is 0, is the time that the process has from SIGTERM on: it is not needed any more, and has not
		// failed.
		Grace time.Duration
	}

	// Last announces that no more ranks will be started: the host ends with its last rank.
	Last struct{}

	// Look requests a Seen.
	Look struct {
		Number int
		Stacks []int // ranks whose stacks are wanted
		Brief  bool  // lines of ranks that wait are not
	}

	// Fetch requests a Fetched. The host keeps the recording of a process that has ended until all of it was fetched.
	Fetch struct {
		Number        int
		What          Fetching
		Rank, Attempt int    // of FetchEvents
		From          uint64 // likewise: number of the first event that is wanted
	}

	// Signal is passed on to all process groups of the ranks. SIGTERM and SIGKILL stop or end all ranks, and the
	// processes that ended ones have left. After SIGTSTP the launcher is stopped, and silent until SIGCONT. As a
	// report: the treerun of a node got this signal to stop the job.
	Signal struct{ Number syscall.Signal }

	// Finish requests all data that has been written to the streams until now, and then their ends.
	Finish struct{}

	// Result is the last message to the treerun of a node: the exit code of the job, and why it could not be
	// started, if so. As a report: why ranks could not be started, with the exit code for it.
	Result struct {
		Code int
		Text string
	}
)

// NodeHello is the message of the treerun of a node to that of node 0 when it connects, before both are agent and
// launcher. The answer is a Result.
type NodeHello struct {
	Node    int      // number of this node, from 0
	Nodes   int      // number of nodes
	Size    int      // -np: ranks of the whole job, 0: not given
	PerNode int      // --ppn: ranks on each node, 0: not given
	Default int      // ranks that this node runs when neither is given
	Host    string   // its own name
	Version string   // of treerun
	Args    []string // PROGRAM and its arguments
	Broken  string   // why this node cannot take part; "": it can
}

// Reports: messages from a host to the launcher.
type (
	// Ready reports that the host can run the ranks.
	Ready struct {
		Host  string // its own name
		PID   int    // of the agent
		Cores int    // usable ones
		Port  int    // a free TCP port

		// Machine is machine.ID: hosts with the same one share cores. "": none does.
		Machine string
	}

	// Started names the ranks that run, once all of a Run are started, or the one of a Spawn. Their streams follow.
	Started struct{ Ranks, PIDs []int }

	// Unstarted reports a process of a Spawn, or of a Run after the first, that could not be started. The host goes on.
	Unstarted struct {
		Rank, Attempt int
		Code          int // exit code for it
		Text          string
	}

	// RankMessage is a message of a rank; without one, no more will come from that rank. As an order: it is for all
	// ranks that have not ended.
	RankMessage struct {
		Rank    int
		Attempt int // of a report
		Message *job.Message
	}

	// Ended reports ranks whose ends were seen at the same moment.
	Ended struct{ Ends []End }

	// Note is a line for the user.
	Note struct {
		Text    string
		Verbose bool // for --verbose only
	}

	// RanksExited reports that all ranks of the host have ended, with the processes that they had left. Another Run may
	// follow.
	RanksExited struct {
		Stuck bool // some processes hang in the kernel
		Port  int  // a free TCP port, 0 if there is none
	}

	// Seen is what the Look of that number has found out about the ranks that run on the host.
	Seen struct {
		Number int
		Ranks  []inspect.Rank
		Took   time.Duration
		At     int64 // Unix time in nanoseconds, by the clock of the host
	}

	// Fetched has recordings, or a part of one, with its events from those of the Fetch on.
	Fetched struct {
		Number int // of the Fetch
		Parts  []Recorded
		Clock  int64 // record.Clock of the host, when it answered
	}

	// Suspect reports how long the longest suspect wait of a rank of the host has lasted, when that is another one than
	// before; 0: there is none any more.
	Suspect struct{ For time.Duration }

	// Lost reports hosts that cannot be reached any more.
	Lost struct {
		Hosts []int
		Text  string
	}
)

// First frames of streams.
type (
	// Stream begins the output of a rank to Stdout or Stderr, or its input.
	Stream struct{ Rank, Number, Attempt int }

	// Push is the program, with its SHA-256 checksum. It goes to all hosts.
	Push struct{ Sum []byte }
)

// Fetching is the purpose of a Fetch.
type Fetching int

// The purposes of a Fetch.
const (
	FetchEvents Fetching = iota // of one process of a rank
	FetchTotals                 // of all ranks that run on the host
	FetchClock
)

// Recorded is a part of the recording of one process of a rank.
type Recorded struct {
	Rank, Attempt int
	Head          *record.Head // nil: there is no recording, for the reason Why
	Why           string
	Events        []byte // for record.Decode
	Next          uint64 // number of the next event; above Head.Count after the last part
}

// End describes the end of a rank.
type End struct {
	Rank, PID   int
	Attempt     int            // number of processes that the rank had before
	Code        int            // exit code, when Signal is 0
	Signal      syscall.Signal // that killed it, or 0
	Stopped     bool           // it had been sent a signal to stop
	ReadJobFile bool           // it had read its job file
	Hint        string         // why the system has ended it, or how treerun found it; "" where not known
	Last        *inspect.Rank  // its latest calls, unless it has ended well or shows none
}

// The streams of a rank.
const (
	Stdout = iota
	Stderr
	Streams // number of the streams that it writes
	Stdin   = Streams
)

// In place of the rank that reads stdin.
const (
	StdinNone = -1
	StdinAll  = -2
)
