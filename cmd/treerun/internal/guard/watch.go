package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is the time from SIGTERM to SIGKILL, as for what ended ranks leave
// behind where the launcher lives.
const grace = 100 * time.Millisecond

// Run is the guard: it returns when the launcher has died and the groups have
// been ended. It takes over descriptor socketFD.
func Run(jobID string) error {
	// Who stops all processes called treerun shall have the launcher stop its
	// ranks in good order meanwhile.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	groups, err := receive(socketFD)
	end(groups, jobID)
	return err
}

// receive collects groups until the other end of the socket is closed.
func receive(socket int) ([]group, error) {
	var groups []group
	for {
		g, err := next(socket)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return groups, fmt.Errorf("guard: %w", err)
		case g == nil:
			return groups, nil
		default:
			groups = append(groups, *g)
		}
	}
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
func end(groups []group, jobID string) {
	members := func(sig syscall.Signal) (found bool) {
		for _, g := range groups {
			err := g.signal(sig)
			if errors.Is(err, unix.EINVAL) { // Linux before 6.9
				return signalByNumber(groups, jobID, sig)
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
