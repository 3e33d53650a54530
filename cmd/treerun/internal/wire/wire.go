// Package wire is what the launcher and the hosts of a job tell each other: the
// orders that go out to a host and the reports that come back. On the launcher's
// own host they are passed as they are; between hosts they travel as frames on
// the stdin and stdout of an agent. It holds data and codecs only. Only the
// packages below cmd/treerun import it.
package wire

import (
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/internal/job"
)

// Body is what a frame carries: an order, a report, or neither. They are pointers to
// values that nobody changes once they have been passed on. One that can be wrong has a
// method check, for what came from outside.
type Body any

// Orders: what the launcher tells a host. The zero values of fields that a
// comment does not name are fine.
type (
	// Join is the first order: who the host is in the job, and which hosts lie
	// below it in the tree of agents. It holds nothing secret.
	Join struct {
		Index       int    // of the host
		Name        string // as the user gave it
		Program     string // as the user gave it
		Path        string // of the program, absolute; "": it is pushed
		Dir         string // working directory
		PeerTimeout time.Duration
		Start       Start // how the hosts below are started
		Below       []Below
		Verbose     bool
	}

	// Start says how agents are started.
	Start struct {
		Command []string      // of an agent, {host} stands for the host's name; empty: ssh
		SSHArgs []string      // further arguments of ssh
		Treerun string        // path of treerun on the other hosts; ignored when Push is set. Launch sets it
		Push    bool          // treerun itself is sent
		FanOut  int           // how many agents one process starts at most
		Timeout time.Duration // until an agent answers
	}

	// Below is a host further down in the tree.
	Below struct {
		Index  int
		Name   string
		Target string // how ssh knows it, or the launch agent
	}

	// Job is what to run: every host runs the ranks for which File.Hosts has
	// its index.
	Job struct {
		File     job.File     // what the job files of all ranks have in common
		Args     []string     // of each rank, from argv[0] on
		Env      []string     // NAME=VALUE, added to the host's own environment
		Bind     int          // to which cores; host.Bind
		Machines []int        // by host: those with the same number share cores; empty: none do
		GPUs     gpus.Request // of each host
		Master   string       // MASTER_ADDR
		Port     int          // MASTER_PORT
		HasStdin bool         // rank 0 gets what Input brings

		ReportBindings bool // a Note for each rank
	}

	// Signal is passed on to all process groups of the ranks. SIGTERM and SIGKILL tell all
	// ranks, and what ended ones have left, to stop, or end them. After SIGTSTP the launcher
	// is stopped, and silent until SIGCONT. As a report: the treerun of a node got this signal
	// to stop the job.
	Signal struct{ Number syscall.Signal }

	// Finish asks for what has been written to all streams until now, and then
	// their ends.
	Finish struct{}

	// Result is the last that the treerun of a node hears: the exit code of the job,
	// and why it could not be started, if so. As a report: why ranks could not be
	// started, with the exit code for it.
	Result struct {
		Code int
		Text string
	}
)

// NodeHello is what the treerun of a node tells that of node 0 when it comes, before both
// are agent and launcher. The answer is a Result.
type NodeHello struct {
	Node    int      // which one this is, from 0
	Nodes   int      // how many there are
	Size    int      // -np: ranks of the whole job, 0: not given
	PerNode int      // --ppn: ranks on each node, 0: not given
	Default int      // ranks that this node runs when neither is given
	Host    string   // its own name
	Version string   // of treerun
	Args    []string // PROGRAM and its arguments
	Broken  string   // why this node cannot take part; "": it can
}

// Reports: what a host tells the launcher.
type (
	// Ready says that the host can run the ranks.
	Ready struct {
		Host  string // its own name
		PID   int    // of the agent
		Cores int    // usable ones
		Port  int    // a TCP port that nobody had

		// Machine is machine.ID: hosts with the same one share cores. "": none does.
		Machine string
	}

	// Started names the ranks that run, once no more will be started. Their streams come.
	Started struct{ Ranks, PIDs []int }

	// RankMessage is a message of a rank; without one, no more will come from that rank.
	// As an order: it is for all ranks that have not ended.
	RankMessage struct {
		Rank    int
		Message *job.Message
	}

	// Ended tells of ranks whose ends were seen at the same moment.
	Ended struct{ Ends []End }

	// Note is a line for the user.
	Note struct {
		Text    string
		Verbose bool // for --verbose only
	}

	// RanksExited says that all ranks of the host have ended, with what they had left.
	RanksExited struct{ Stuck bool } // some processes hang in the kernel

	// Lost says that hosts cannot be reached any more.
	Lost struct {
		Hosts []int
		Text  string
	}
)

// What streams begin with.
type (
	// Stream is what a rank has written to Stdout or Stderr, or what it reads.
	Stream struct{ Rank, Number int }

	// Push is the program, with its SHA-256 checksum. It goes to all hosts.
	Push struct{ Sum []byte }
)

// End is how a rank ended.
type End struct {
	Rank, PID   int
	Code        int            // exit code, when Signal is 0
	Signal      syscall.Signal // that killed it, or 0
	Stopped     bool           // it had been told to stop
	ReadJobFile bool           // it had read its job file
	Hint        string         // why the system has ended it, or how treerun found it; "" where not known
}

// The streams of a rank.
const (
	Stdout = iota
	Stderr
	Streams // how many it writes
	Stdin   = Streams
)
