package exchange

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// noticeTimeout is how long writing a notice may take.
const noticeTimeout = 100 * time.Millisecond

// peerConn is one connection of the mesh.
type peerConn struct {
	netconn.Heartbeat
	peer     int
	conn     net.Conn
	used     atomic.Bool   // the peer has sent something
	replaced atomic.Bool   // another connection has taken its place
	ended    chan struct{} // closed when reading has ended
	mu       sync.Mutex    // held while writing

	queueMu sync.Mutex
	queue   []*frame // notices to be written, in order
}

// Read reads from the connection, and notes that the peer lives.
func (l *peerConn) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	if n > 0 {
		l.Received()
		l.used.Store(true)
	}
	return n, err
}

// enqueue queues a notice, and reports whether it is the first in the queue: then the caller flushes.
func (l *peerConn) enqueue(f *frame) bool {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	l.queue = append(l.queue, f)
	return len(l.queue) == 1
}

// flush writes the queued notices, and reports no error: the peer may be gone, which the connection's reader notices.
func (l *peerConn) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queueMu.Lock()
	queue := l.queue
	l.queue = nil
	l.queueMu.Unlock()
	l.writeNotices(queue...)
}

// writeNotices writes notices. They are small; only a peer that does not read delays the write, by noticeTimeout at
// most. The caller holds mu.
func (l *peerConn) writeNotices(notices ...*frame) {
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	_ = l.write(ctx, notices...) // a peer that misses a notice learns of the failure itself
}

// sendHeartbeat shows the peer that this rank lives, unless a write is under way, which shows the same.
func (l *peerConn) sendHeartbeat(f *frame) {
	if l.mu.TryLock() {
		defer l.mu.Unlock()
		l.writeNotices(f)
	}
}

// send writes a frame, until ctx is done. After an error the connection is unusable.
func (l *peerConn) send(ctx context.Context, f *frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(ctx, f)
}

// write writes frames until ctx is done. The caller holds mu.
func (l *peerConn) write(ctx context.Context, frames ...*frame) error {
	l.conn.SetWriteDeadline(time.Time{})
	unblock := context.AfterFunc(ctx, func() { l.conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer unblock()
	var bufs net.Buffers
	for _, f := range frames {
		bufs = append(bufs, f.encode()...)
	}
	n, err := bufs.WriteTo(l.conn)
	if err != nil && n > 0 {
		l.conn.Close() // in the middle of a frame
	}
	return err
}
