package rank

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// A rank that needs the reason why another one makes no progress opens a connection of its own to it and requests its
// waits. It sends the number of a rank, 4 bytes, whose process it needs the state of as well; the answer is a
// waits.Status as msgpack, and the end of the connection. A process that is stopped accepts the connection and never
// answers.

const (
	maxStatus  = 1 << 20 // bytes
	statusTime = 2 * time.Second
)

// Waits is for the packages of treerun: the waits of this rank, and its means to find out about those of others.
func (w *World) Waits() *waits.Job { return w.job }

// newWaits sets the view of the waits of w.
func (w *World) newWaits() {
	w.job = &waits.Job{
		Rank: w.cfg.Rank, Size: w.cfg.Size, Every: w.cfg.waitReport, Limit: w.cfg.parsed.StallTimeout, Log: w.cfg.logWait,
		Ask: w.askWaits, State: w.process, HostOf: func(rank int) int { return w.cfg.Hosts[rank] },
	}
	w.wait = w.job.NewWait("", nil)
}

// process returns the process of a rank on this host, and its state.
func (w *World) process(rank int) (pid int, s job.ProcState) {
	if rank == w.cfg.Rank || rank < 0 || rank >= w.cfg.Size {
		return 0, job.ProcState{}
	}
	r, self := w.members.of(rank), &w.members.self
	if r.Host != self.Host || r.Space == 0 || r.Space != self.Space {
		return 0, job.ProcState{} // on another host, or its number means nothing here
	}
	return r.PID, job.ReadProc(r.PID)
}

// askWaits requests the waits of a rank.
func (w *World) askWaits(ctx context.Context, rank, about int) (s waits.Status, err error) {
	if w.mesh.HasLeft(rank) {
		return s, ErrPeerClosed
	}
	conn, err := w.auth.dial(ctx, w.members.where(rank), rank, statusChannel)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	if limit, ok := ctx.Deadline(); ok {
		conn.SetDeadline(limit)
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, uint32(about))); err != nil {
		return s, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxStatus))
	if err != nil {
		return s, err
	}
	return decodeStatus(text, w.cfg.Size)
}

// decodeStatus decodes the waits of a rank of a job of size ranks.
func decodeStatus(b []byte, size int) (s waits.Status, err error) {
	if err := strict.Unmarshal(b, &s); err != nil {
		return waits.Status{}, fmt.Errorf("status: %w", err)
	}
	return s, s.Check(size)
}

// tellWaits answers a rank that requests this one's waits.
func (w *World) tellWaits(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(statusTime))
	unblock := context.AfterFunc(w.stop, func() { conn.Close() })
	defer unblock()
	var about [4]byte
	if _, err := io.ReadFull(conn, about[:]); err != nil {
		return
	}
	s := w.job.Status(w.stop, int(binary.BigEndian.Uint32(about[:])))
	_, _ = conn.Write(strict.Marshal(&s)) // the other rank notices that no answer comes
}
