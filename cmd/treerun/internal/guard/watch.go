package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/rank/job"
)

// grace is the time from SIGTERM to SIGKILL, as for what ended ranks leave
// behind where the launcher lives.
const grace = 100 * time.Millisecond

// Run is the guard: it returns when the launcher has died, or has been silent
// for longer than silence (a duration; 0: no matter), which kills it, and the
// groups have been ended. It takes over descriptor socketFD.
func Run(jobID, silence string) error {
	limit, err := time.ParseDuration(silence)
	if err != nil || limit < 0 {
		return fmt.Errorf("guard: a silence of %.40q", silence)
	}
	// Who stops all processes called treerun shall have the launcher stop its
	// ranks in good order meanwhile.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	parent := unix.Getppid()
	parentFD, err := unix.PidfdOpen(parent, 0)
	if err != nil || unix.Getppid() != parent { // it has died before
		parentFD = -1
	}
	session, _ := unix.Getsid(parent) // 0 where it has died
	heard, err := receive(socketFD, limit)
	if heard.silent && parentFD >= 0 {
		_ = unix.PidfdSendSignal(parentFD, unix.SIGKILL, nil, 0)
	}
	end(heard, jobID, session)
	return err
}

// heard is what the launcher has told.
type heard struct {
	groups   []group
	expected int  // a rank that was about to be started, -1 for none
	silent   bool // the launcher is there, but has said nothing for too long
}

// receive collects groups until the other end of the socket is closed, or
// silent. A process that was stopped with us is not silent: what it has said, or
// says within a quarter of the limit, is heard first.
func receive(socket int, limit time.Duration) (h heard, err error) {
	h.expected = -1
	const parts = 4
	if limit > 0 {
		timeout := unix.NsecToTimeval(int64(limit / parts))
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
		return nil, fmt.Errorf("a message of %d bytes with %d descriptors for process group %d is not the launcher's", n, len(fds), id)
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

// end ends all that is left in the groups.
func end(h heard, jobID string, session int) {
	members := func(sig syscall.Signal) (found bool) {
		if h.expected >= 0 && session > 0 {
			found = signalRank(h.expected, session, jobID, sig)
		}
		for _, g := range h.groups {
			err := g.signal(sig)
			if errors.Is(err, unix.EINVAL) { // Linux before 6.9
				return signalByNumber(h.groups, jobID, sig) || found
			}
			found = found || err == nil
		}
		return found
	}
	if !members(unix.SIGTERM) {
		return
	}
	members(unix.SIGCONT) // lets stopped ones hear it
	for deadline := time.Now().Add(grace); members(0) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	members(unix.SIGKILL)
}
