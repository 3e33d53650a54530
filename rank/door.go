package rank

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

const (
	// maxWaiting is how many connections may be proving themselves at once.
	maxWaiting = 128

	// maxMute is how many may hang up, or fall silent in the middle, before they
	// have proved anything, until that counts as a stranger's doing. A rank does so
	// when its time is up, when it or this one got no core for a while, or when it
	// was quicker at another address.
	maxMute = 16
)

// door is the one TCP port of a rank. It lets in who proves that he is a rank
// of the job, and gives the connection to memberlist or to the mesh.
type door struct {
	gate    *gate
	net     *network
	ln      *net.TCPListener
	log     *slog.Logger
	streams chan net.Conn                 // for memberlist
	data    func(peer int, conn net.Conn) // for the mesh; must not block
	asked   func(conn net.Conn)           // by a rank that wants to know what this one waits for; must not block
	came    func(peer int, from net.Addr) // hears of everybody who is let in
	hello   time.Duration                 // how long a connection may take to prove itself

	stop  context.Context
	guard *netconn.Acceptor
	taken atomic.Int64 // connections that were let in

	mu     sync.Mutex
	warned bool
	mute   int // how many have hung up
}

// open begins to accept connections, until stop is done.
func (d *door) open(stop context.Context) {
	d.streams, d.stop = make(chan net.Conn), stop
	d.guard = netconn.OpenAcceptor(netconn.AcceptorConfig{Prove: d.prove, Refused: d.stranger, Wait: d.hello, Places: maxWaiting}, d.ln)
}

// close stops listening and ends the connections that have not proved
// themselves. It returns when all goroutines are gone. Precondition: stop is
// done.
func (d *door) close() { d.guard.Close() }

func (d *door) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.stop.Done():
	}
}

// prove finds out who has come, and returns what to do with him.
func (d *door) prove(conn net.Conn) (enter func(), err error) {
	if !d.net.takes(conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()) {
		return func() { conn.Close() }, nil
	}
	peer, ch, err := d.gate.accept(conn)
	if err != nil {
		return nil, err
	}
	return func() { d.admit(conn, peer, ch) }, nil
}

// admit takes a connection that has proved itself.
func (d *door) admit(conn net.Conn, peer int, ch channel) {
	if letIn(conn) != nil {
		conn.Close() // he will try again
		return
	}
	d.taken.Add(1)
	d.came(peer, conn.RemoteAddr())
	switch ch {
	case dataChannel:
		d.data(peer, conn)
		return
	case statusChannel:
		d.asked(conn)
		return
	}
	select {
	case d.streams <- conn:
	case <-d.stop.Done():
		conn.Close()
	}
}

// hungUp says whether an error of a handshake is the other side's end.
func hungUp(err error) bool {
	return err == io.EOF || errors.Is(err, errNoProof) && (isEnd(err) || errors.Is(err, os.ErrDeadlineExceeded))
}

// stranger reports the first caller who was refused. There may be thousands.
func (d *door) stranger(from net.Addr, err error) {
	if d.stop.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, errBeaten) {
		return
	}
	d.mu.Lock()
	if hungUp(err) {
		if d.mute++; d.mute <= maxMute {
			d.mu.Unlock()
			return
		}
	}
	first := !d.warned
	d.warned = true
	d.mu.Unlock()
	if first {
		d.log.Warn("treerun: refused somebody who is no rank of this job; others are refused without a word",
			"rank", d.gate.self, "from", from, "error", err)
	}
}
