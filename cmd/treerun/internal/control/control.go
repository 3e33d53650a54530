//go:build linux

// Package control connects a user's commands with the user's running jobs. The launcher of a job listens on a unix
// socket with an abstract name, which a command finds in /proc/net/unix by its form. The system names the user at the
// other end of a connection, and both ends check that: a socket of another user with such a name gets nothing, and no
// other user but root changes a job. Only packages below cmd/treerun import it.
package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// Request is the message of a command to a launcher: the one to change the number of ranks, or to look at them.
type Request struct {
	Size   int   // the number of ranks that the job shall have; 0: the request is about its state
	Stacks []int // ranks whose stacks are wanted
}

// Answer is the launcher's answer.
type Answer struct {
	Error string       // why the request cannot be carried out; "": it is
	Text  string       // what will happen, or the verdict, for the user
	Job   *inspect.Job // the state of the job
}

// The frames: a Request or an Answer, as msgpack.
const (
	requestFrame = 1
	answerFrame  = 2
)

var sizes = strict.FrameSizes{requestFrame: {1, 64 << 10}, answerFrame: {1, 256 << 20}}

// limit is how long either side waits for the other.
const limit = 10 * time.Second

// prefix begins the name of a socket; the id of the job follows.
const prefix = "@treerun/"

// Listener is the socket of a job.
type Listener struct {
	ln   net.Listener
	stop context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// Listen opens the socket of a job. It calls handle for each request of the user or of root, maybe concurrently, and
// sends its answer.
func Listen(id string, handle func(Request) Answer) (*Listener, error) {
	ln, err := listen(prefix + id)
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	l := &Listener{ln: ln}
	l.stop, l.end = context.WithCancel(context.Background())
	l.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of descriptors, most likely
				time.Sleep(limit / 100)
				continue
			}
			l.wg.Go(func() {
				defer context.AfterFunc(l.stop, func() { conn.Close() })()
				serve(conn, handle)
			})
		}
	})
	return l, nil
}

// listen returns an error where net.Listen panics: it takes the name of a socket from getsockname, and uses it although
// that call has failed (Go 1.26, listenUnix).
func listen(name string) (ln net.Listener, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("getsockname of %s: %v", name, r)
		}
	}()
	return net.Listen("unix", name)
}

// Close closes the socket and its connections, and returns when no request is being handled.
func (l *Listener) Close() {
	l.end()
	l.ln.Close()
	l.wg.Wait()
}

func serve(conn net.Conn, handle func(Request) Answer) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	if user, err := userOf(conn); err != nil || user != os.Geteuid() && user != 0 {
		return
	}
	r, err := decode[Request](conn, requestFrame)
	if err == nil {
		err = job.Within("number of ranks: %d", r.Size, 0, job.MaxRanks)
	}
	a := Answer{}
	if err != nil {
		a.Error = err.Error()
	} else {
		a = handle(r)
	}
	_, _ = conn.Write(encode(a, answerFrame)) // the command may be gone
}

// decode reads a message of a kind.
func decode[T Request | Answer](r io.Reader, kind byte) (m T, err error) {
	got, body, err := strict.ReadFrame(bufio.NewReader(r), sizes)
	if err == nil && got != kind {
		err = fmt.Errorf("frame of kind %d, want %d", got, kind)
	}
	if err == nil {
		err = strict.Unmarshal(body, &m)
	}
	if err != nil {
		return m, fmt.Errorf("a message that cannot be read: %w (are both ends of the same version of treerun?)", err)
	}
	return m, nil
}

// encode returns a message of a kind.
func encode[T Request | Answer](m T, kind byte) []byte {
	body := strict.Marshal(&m)
	return append(strict.AppendHead(nil, kind, len(body)), body...)
}

// userOf returns the user at the other end of a connection.
func userOf(conn net.Conn) (user int, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(failed, err); err != nil {
		return -1, fmt.Errorf("find the user at the other end: %w", err)
	}
	return int(cred.Uid), nil
}

// Jobs returns the ids of the jobs whose launchers run on this host and belong to this user, in order.
func Jobs(ctx context.Context) ([]string, error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("find jobs: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		const flagsField, nameField, listens = 3, 7, "00010000" // __SO_ACCEPTCON
		if len(fields) <= nameField || fields[flagsField] != listens {
			continue
		}
		id, is := strings.CutPrefix(fields[nameField], prefix)
		if !is || job.CheckID(id) != nil || slices.Contains(ids, id) {
			continue
		}
		if conn, err := dial(ctx, id); err == nil {
			conn.Close()
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// dial connects to the launcher of a job of this user.
func dial(ctx context.Context, id string) (net.Conn, error) {
	if err := job.CheckID(id); err != nil {
		return nil, fmt.Errorf("job %q: %w", id, err)
	}
	d := net.Dialer{Timeout: limit}
	conn, err := d.DialContext(ctx, "unix", prefix+id)
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("job %s does not run on this host (hint: call treerun on the host of its launcher; "+
			"treerun status lists the jobs here)", id)
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	user, err := userOf(conn)
	if err == nil && user != os.Geteuid() && os.Geteuid() != 0 {
		err = fmt.Errorf("job %s belongs to user %d", id, user)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Ask sends a request to the launcher of a job of this user, and returns its answer.
func Ask(ctx context.Context, id string, r Request) (a Answer, err error) {
	conn, err := dial(ctx, id)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err = conn.Write(encode(r, requestFrame)); err == nil {
		a, err = decode[Answer](conn, answerFrame)
	}
	if err != nil {
		return a, fmt.Errorf("job %s: %w", id, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("job %s: %s", id, a.Error)
	}
	return a, nil
}
