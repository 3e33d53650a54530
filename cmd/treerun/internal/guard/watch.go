package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

const (
	// grace is the time from SIGTERM to SIGKILL, as for what ended ranks leave
	// behind where the launcher lives.
	grace = 100 * time.Millisecond

	// limit is how long the guard looks for what is left, and how long it waits
	// before for the launcher's end.
	limit = 5 * time.Second

	pause = 5 * time.Millisecond // between two looks
	looks = 3                    // in a row must have found nothing
)

// Run is the guard, given the arguments after treerun's name, for which Is holds.
// It returns when the launcher has died, or has been silent for too long, which
// kills it, and the groups have been ended. It takes over descriptor socketFD.
func Run(args []string) error {
	jobID := args[1]
	silence, err := time.ParseDuration(args[2])
	if err != nil || silence < 0 {
		return fmt.Errorf("guard: a silence of %.40q", args[2])
	}
	parent, err := strconv.Atoi(args[3])
	if err != nil {
		return fmt.Errorf("guard: a launcher of number %.40q", args[3])
	}
	session, err := strconv.Atoi(args[4])
	if err != nil || session < 0 { // 0: its leader is outside of our PID namespace
		return fmt.Errorf("guard: a session of number %.40q", args[4])
	}
	// Who stops all processes called treerun shall have the launcher stop its
	// ranks in good order meanwhile.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	parentFD, err := unix.PidfdOpen(parent, 0)
	if err != nil || unix.Getppid() != parent { // it has died before
		parentFD = -1
	}
	heard, err := receive(socketFD, silence)
	if heard.silent && parentFD >= 0 {
		_ = unix.PidfdSendSignal(parentFD, unix.SIGKILL, nil, 0)
	}
	if heard.expected >= 0 {
		awaitEnd(parent)
	}
	heard.end(jobID, session)
	return err
}

// awaitEnd waits until this process has lost its parent. Its siblings have lost
// theirs at the same moment, and with it those their lives that have such a
// parent-death signal: from then on they start nothing more.
func awaitEnd(parent int) {
	for deadline := time.Now().Add(limit); unix.Getppid() == parent && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// heard is what the launcher has told.
type heard struct {
	groups   []group
	expected int  // a rank that was about to be started, -1 for none
	silent   bool // the launcher is there, but has said nothing for too long
}

// receive collects groups until the other end of the socket is closed, or
// silent. A process that was stopped with us is not silent: what it has said, or
// says within a quarter of that time, is heard first.
func receive(socket int, silence time.Duration) (h heard, err error) {
	h.expected = -1
	const parts = 4
	if silence > 0 {
		timeout := unix.NsecToTimeval(int64(silence / parts))
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return h, fmt.Errorf("guard: %w", os.NewSyscallError("setsockopt", err))
		}
	}
	for missed := 0; missed <= parts; {
		g, err := next(socket)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			missed++
			continue
		case err != nil:
			return h, fmt.Errorf("guard: %w", err)
		case g == nil:
			return h, nil
		case g.id == 0: // a sign of life
		case g.id < 0:
			h.expected = -1 - g.id
		default:
			h.groups, h.expected = append(h.groups, *g), -1
		}
		missed = 0
	}
	h.silent = true
	return h, nil
}

// next receives one group; nil when there are no more.
func next(socket int) (*group, error) {
	var message [groupBytes]byte
	control := make([]byte, unix.CmsgSpace(4))
	n, controlBytes, _, _, err := unix.Recvmsg(socket, message[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, err
	}
	fds, err := descriptors(control[:controlBytes])
	if err != nil {
		return nil, err
	}
	id := int(int32(binary.BigEndian.Uint32(message[:])))
	if n == groupBytes && len(fds) == 0 && id <= 0 && id >= -job.MaxRanks {
		return &group{id: id}, nil
	}
	if n != groupBytes || len(fds) != 1 || id <= 1 {
		return nil, fmt.Errorf("a message of %d bytes with %d descriptors for process group %d is not the launcher's", n,
			len(fds), id)
	}
	return &group{id: id, pidfd: fds[0]}, nil
}

func descriptors(control []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return unix.ParseUnixRights(&messages[0])
}

// end ends all that is left in the groups, and of the rank that was expected.
func (h heard) end(jobID string, session int) {
	// signal tells whether there was anybody in groups, of whom a signal misses
	// none, and whether there was, or may have been, anybody who is looked for.
	signal := func(sig syscall.Signal) (grouped, found bool) {
		if h.expected >= 0 {
			found = signalRank(h.expected, session, jobID, sig)
		}
		for _, g := range h.groups {
			err := g.signal(sig)
			if errors.Is(err, unix.EINVAL) { // Linux before 6.9
				return false, signalByNumber(h.groups, jobID, sig) || found
			}
			grouped = grouped || err == nil
		}
		return grouped, found
	}
	if len(h.groups) == 0 && h.expected < 0 {
		return
	}
	grouped, found := signal(unix.SIGTERM)
	signal(unix.SIGCONT) // lets stopped ones hear it
	for deadline := time.Now().Add(grace); (grouped || found) && time.Now().Before(deadline); {
		time.Sleep(pause)
		grouped, found = signal(0)
	}
	deadline := time.Now().Add(limit)
	for none := 0; none < looks && time.Now().Before(deadline); time.Sleep(pause) {
		none++
		if _, found = signal(unix.SIGKILL); found {
			none = 0
		}
	}
}
