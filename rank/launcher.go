package rank

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/job"
)

// launcher is the control socket to the launcher of treerun. It outlives the World where the rank renews.
type launcher struct {
	cfg     *config // of the first World
	conn    net.Conn
	seed    chan []netip.AddrPort // gets the addresses of rank 0
	reading sync.WaitGroup
	closed  atomic.Bool
	seen    atomic.Uint32 // number of news in memory that have been handled

	mu sync.Mutex // one message at a time

	news epochs
}

// newLauncher begins to read from conn.
func newLauncher(cfg *config, conn net.Conn) *launcher {
	l := &launcher{cfg: cfg, conn: conn, seed: make(chan []netip.AddrPort, 1)}
	l.news.changed, l.news.latest = make(chan struct{}), cfg.Epoch
	l.reading.Go(l.read)
	return l
}

// close ends the connection.
func (l *launcher) close() {
	l.closed.Store(true)
	l.conn.Close()
	l.reading.Wait()
}

func (l *launcher) read() {
	for {
		m, err := job.ReadMessage(l.conn)
		if l.closed.Load() {
			return
		}
		if err != nil {
			l.onClosed(err)
			return
		}
		switch m.Kind {
		case job.SeedIs:
			select {
			case l.seed <- m.Addrs:
			default: // received before
			}
		case job.Show:
			l.showStacks()
		default:
			l.news.receive(m)
		}
	}
}

// onClosed handles the end of the launcher, or of the protocol with it.
func (l *launcher) onClosed(err error) {
	var sys *net.OpError
	if err != io.EOF && !errors.As(err, &sys) {
		l.news.fail("protocol error of the launcher: " + err.Error())
		return
	}
	l.news.fail("the launcher is gone")
	if act := l.cfg.launcherGone; act != nil {
		act(err)
		return
	}
	killOwnGroup()
	fmt.Fprintf(os.Stderr, "treerun: rank %d ends, because the launcher is gone\n", l.cfg.Rank)
	os.Exit(1)
}

// deliver notes that a rank of the epoch of w has ended, and how, or that it has left the epoch, or that others wait to
// be taken in. The launcher notifies every rank, so that nothing needs to be passed on.
func deliver(w *World, m *job.Message) {
	r := w.cfg.rankOf(m.Rank)
	switch {
	case m.Kind == job.Waiting:
		w.change.Do(func() { close(w.changed) })
		return
	case r < 0 || r == w.cfg.Rank:
		return
	case m.Kind == job.Revoked:
		w.mesh.MarkFailed(r, m.Text)
		return
	case m.Closed && (m.Signal == 0 && m.Code == 0 || w.Renews()): // the others do not need it any more
		w.mesh.MarkEnded(r)
		return
	}
	what := describeExit(m, w.members.entry(r).port != 0)
	if !m.Lost { // else it names the host
		what += w.members.onHost(r)
	}
	w.mesh.MarkFailed(r, what)
}

// describeExit describes in words how a rank ended.
func describeExit(m *job.Message, joined bool) string {
	if m.Lost {
		return m.Text
	}
	what := "exited with code " + strconv.Itoa(m.Code)
	if m.Signal != 0 {
		what = "killed by " + job.SignalName(syscall.Signal(m.Signal))
	}
	switch {
	case !joined:
		what += " before it joined"
	case m.Signal == 0 && m.Code == 0:
		what += " without closing its world"
	}
	return what
}

// send writes one message of this rank.
func (l *launcher) send(kind job.MessageKind, addrs ...netip.AddrPort) error {
	return l.write(&job.Message{Kind: kind, Addrs: addrs})
}

// report sends a wait of this rank. It reports whether the launcher reports waits, which it finds in the rank's page.
func (l *launcher) report(w job.Wait) bool {
	w.For = max(w.For, 0)
	return l.write(&job.Message{Kind: job.Waits, Wait: &w}) == nil && l.cfg.Page != nil
}

// showStacks sends the stacks of this rank's goroutines to the host, which can read those of goroutines that do not run
// on a CPU itself. All goroutines stop meanwhile, for some tenths of a millisecond.
func (l *launcher) showStacks() {
	text := make([]byte, job.MaxStacks)
	text = text[:runtime.Stack(text, true)]
	// Without its answer the host has no line.
	_ = l.write(&job.Message{Kind: job.Stacks, Text: strings.ToValidUTF8(string(text), "")})
}

// peerLost reports that a call of this rank has failed because another rank has ended.
func (l *launcher) peerLost() {
	_ = l.send(job.Exited) // a launcher that is gone needs no message
}

// reportFailure reports a failure of a communicator that no call but Close has returned: to the launcher or, without
// one of treerun, to the logger.
func reportFailure(w *World, err error) {
	if w.renewed.Load() || w.Renews() && again(err) {
		return // another epoch may follow
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > job.MaxFailure {
		text = strings.ToValidUTF8(text[:job.MaxFailure], "")
	}
	if w.launcher == nil || w.launcher.write(&job.Message{Kind: job.Failed, Text: text}) != nil {
		w.cfg.log.Error("treerun: "+text, "rank", w.cfg.Rank)
	}
}

func (l *launcher) write(m *job.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	m.Rank, m.PID = l.cfg.File.Rank, os.Getpid()
	if err := job.WriteMessage(l.conn, m); err != nil {
		return &Error{Self: l.cfg.Rank, Rank: -1, Op: "sending to the launcher", Err: err}
	}
	return nil
}
