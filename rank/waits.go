package rank

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// A rank that needs the reason why another one makes no progress opens a connection of its own to it and requests its
// waits. It sends the number of a rank, 4 bytes, whose process it needs the state of as well; the answer is a
// waits.Status as msgpack, and the end of the connection. A process that is stopped accepts the connection and never
// answers.

const (
	maxStatus  = 1 << 20 // bytes
	statusTime = 2 * time.Second
)

// queries are the questions of ranks about the waits of others: those that this rank asks, and its answers.
type queries struct {
	cfg     *config
	auth    *authenticator
	members *members
	mesh    *exchange.Mesh
	stop    context.Context
	job     *waits.Job
}

// newQueries makes the view of the waits of a World.
func newQueries(w *World) *queries {
	q := &queries{cfg: w.cfg, auth: w.auth, members: w.members, mesh: w.mesh, stop: w.stop}
	every, limit := q.cfg.waitReport, q.cfg.parsed.StallTimeout
	if w.Renews() && limit > 0 { // the launcher ends the rank that others wait for
		every, limit = min(every, limit), 0
	}
	q.job = &waits.Job{
		Rank: q.cfg.Rank, Size: q.cfg.Size, Every: every, Limit: limit, Log: q.cfg.logWait,
		Query: q.query, State: q.members.process, HostOf: func(rank int) int { return q.cfg.Hosts[rank] },
	}
	if w.Renews() {
		q.job.Origins = q.cfg.origins()
	}
	return q
}

// query requests the waits of a rank.
func (q *queries) query(ctx context.Context, rank, about int) (s waits.Status, err error) {
	if q.mesh.HasLeft(rank) {
		return s, ErrPeerClosed
	}
	conn, err := q.auth.dial(ctx, q.members.addresses(rank), rank, statusChannel)
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
	return decodeStatus(text, q.cfg.Size)
}

// decodeStatus decodes the waits of a rank of a job of size ranks.
func decodeStatus(b []byte, size int) (s waits.Status, err error) {
	if err := strict.Unmarshal(b, &s); err != nil {
		return waits.Status{}, fmt.Errorf("status: %w", err)
	}
	return s, s.Check(size)
}

// answer sends this rank's waits to a rank that requests them.
func (q *queries) answer(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(statusTime))
	unblock := context.AfterFunc(q.stop, func() { conn.Close() })
	defer unblock()
	var about [4]byte
	if _, err := io.ReadFull(conn, about[:]); err != nil {
		return
	}
	s := q.job.Status(q.stop, int(binary.BigEndian.Uint32(about[:])))
	_, _ = conn.Write(strict.Marshal(&s)) // the other rank notices that no answer comes
}
