package rank

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// World is this process's place in a job. Its methods may be called
// concurrently.
type World struct {
	cfg      *config
	auth     *authenticator
	members  *members
	mesh     *exchange.Mesh
	queries  *queries
	launcher *launcher   // nil when there is none, or another one started the ranks; of all Worlds of this process
	meeting  *rendezvous // nil in a world of one

	wait   *waits.Wait     // of AllGather
	stop   context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	change  sync.Once     // closes changed
	changed chan struct{} // closed when ranks wait to be taken in

	epochOnce sync.Once       // makes epoch
	epoch     context.Context // ends with the epoch

	closeOnce sync.Once   // Close or Renew has begun
	closed    atomic.Bool // likewise
	renewed   atomic.Bool // Renew has begun
	closeErr  error
}

// Rank returns this rank's number, from 0.
func (w *World) Rank() int { return w.cfg.Rank }

// Size returns the number of ranks.
func (w *World) Size() int { return w.cfg.Size }

// LocalRank returns this rank's number among the ranks of its host, from 0.
func (w *World) LocalRank() int { return w.cfg.LocalRank }

// LocalSize returns the number of ranks on this rank's host.
func (w *World) LocalSize() int { return w.cfg.LocalSize }

// Host returns the name of this rank's host.
func (w *World) Host() string { return w.cfg.Host }

// Device returns the UUID of the GPU that this rank uses, as "GPU-" and 36 digits and dashes, and "" when it has none:
// treerun gave it none, or another launcher has not set TREERUN_DEVICE. It may be one that other ranks use as well.
func (w *World) Device() string { return w.cfg.Device }

// HostOf returns the index of a rank's host. Hosts are numbered in the order in
// which the ranks, from 0, bring them up. It panics when there is no such rank.
func (w *World) HostOf(rank int) int { return w.cfg.Hosts[rank] }

// HostName returns the name of a rank's host, for users to read. It panics when there is no such rank.
func (w *World) HostName(rank int) string { return w.members.hostName(rank) }

// ListenAddrs returns the addresses of this rank's host that it offers to other
// hosts, best first; the loopback address when all ranks are on one host. The
// slice is the caller's.
func (w *World) ListenAddrs() []netip.Addr {
	if !w.cfg.OneHost() {
		return w.meeting.port.net.ips()
	}
	if w.meeting != nil && w.meeting.port.net.offered[0].IP == loopback6 {
		return []netip.Addr{loopback6}
	}
	return []netip.Addr{loopback4}
}

// Epoch returns the number of this epoch of the job, from 0: one ends with each restart of all ranks, and with each
// Renew.
func (w *World) Epoch() int { return w.cfg.Epoch }

// Origin returns the number that this rank had when it was started. It has the same in all epochs, and no other rank
// gets it but a process that replaces this one.
func (w *World) Origin() int { return w.cfg.origin() }

// Lost returns the origins of the ranks that were lost between the epoch before and this one, in ascending order. The
// slice is the caller's.
func (w *World) Lost() []int {
	if w.cfg.place == nil {
		return nil
	}
	return slices.Clone(w.cfg.place.lost)
}

// Joined returns the origins of the ranks that were not in the epoch before, in ascending order. The slice is the
// caller's.
func (w *World) Joined() []int {
	if w.cfg.place == nil {
		return nil
	}
	return slices.Clone(w.cfg.place.joined)
}

// Renews reports whether another epoch may follow this one: the job continues after the loss of a rank, and this
// process takes part in that.
func (w *World) Renews() bool { return w.launcher != nil && w.cfg.File.Renews && w.cfg.options.renews }

// Changed returns a channel that is closed when ranks wait to be taken in. A program that wants them leaves at its next
// boundary, with ErrAgain. The channel is never closed where no other epoch may follow.
func (w *World) Changed() <-chan struct{} { return w.changed }

// Context returns a context that ends with the epoch, so that computations and loaders stop then: when a rank has
// failed, or has renewed, or w is closed. Its cause is the failure. It also ends with the context of Worlds.
func (w *World) Context() context.Context {
	w.epochOnce.Do(func() {
		within := w.cfg.within
		if within == nil {
			within = context.Background()
		}
		ctx, end := context.WithCancelCause(within)
		w.epoch = ctx
		w.wg.Go(func() {
			select {
			case <-w.mesh.Failed():
				_, err := w.Failure()
				end(err)
			case <-w.stop.Done():
				end(nil)
			}
		})
	})
	return w.epoch
}

// JobID returns the id of the job, the same on all ranks.
func (w *World) JobID() string { return w.cfg.JobID }

// Setting returns a setting of the launcher, the same on all ranks, and "" when
// it is not set.
func (w *World) Setting(name string) string { return w.cfg.Settings[name] }

// DeriveKey returns a 32-byte key that only the ranks of this job can know. It differs for every purpose, and for every
// attempt of the job. The key is the caller's.
func (w *World) DeriveKey(purpose string) []byte {
	return w.cfg.Key(fmt.Sprintf("attempt %x user %s", w.auth.Current(), purpose))
}

// Failed returns a channel that is closed when a rank is known to have failed:
// it was killed, it exited with another code than 0, or with 0 without closing
// its world, its host is lost, or the launcher is. It is never closed in a
// world of one without a launcher, nor after Close.
func (w *World) Failed() <-chan struct{} { return w.mesh.Failed() }

// Failure returns the rank that failed first, to the knowledge of this rank, and the cause: a *Error that is an
// ErrFailed. It returns -1 and nil while there is none; -1 with an error when the launcher is gone.
func (w *World) Failure() (rank int, err error) {
	if f := w.mesh.Failure(); f != nil {
		return f.Rank, w.fault("", f)
	}
	return -1, nil
}

// Left reports whether another rank is known to have closed its World in good order.
func (w *World) Left(rank int) bool { return w.mesh.HasLeft(rank) }

// Gone reports whether another rank is known to have closed its World or to have failed, the first or a later one.
func (w *World) Gone(rank int) bool { return w.mesh.Gone(rank) }

// Waits is for the packages of treerun: the waits of this rank, and its means to find out about those of others.
func (w *World) Waits() *waits.Job { return w.queries.job }

// Close notifies the other ranks and the launcher that this rank leaves in good order, and releases sockets, memory and
// goroutines. Later operations of the others that need this rank fail with ErrPeerClosed there. Idempotent.
//
// Communicators that are still open are closed first, the latest first, and Close returns their errors, too. A failure
// of a communicator that no call but a Close has returned is reported to treerun, also where the caller drops the
// error: the job fails then. Without treerun the logger gets it. Apart from that Close does not wait for other ranks.
//
// A Close that a panic runs, by defer, closes nothing and panics again: the others then fail with the end of this
// process, and treerun reports the panic.
func (w *World) Close() error {
	if p := recover(); p != nil {
		panic(p)
	}
	w.closeOnce.Do(func() {
		w.closed.Store(true)
		w.closeErr = w.queries.job.CloseAll()
		w.mesh.MarkClosing()
		w.mesh.SendClosed()
		if w.launcher != nil {
			err := w.launcher.send(job.Closing)
			if w.mesh.Failure() == nil { // else the launcher has other things to do
				w.closeErr = errors.Join(w.closeErr, err)
			}
		}
		if w.launcher != nil {
			w.launcher.close()
		}
		w.release()
		w.cfg.Page.SetPhase(status.Closed)
		if w.cfg.profiler != nil {
			w.cfg.profiler.rotate(true)
		}
	})
	return w.closeErr
}

// release releases all resources but the connection to the launcher.
func (w *World) release() {
	w.cancel()
	if w.meeting != nil {
		w.meeting.port.close()
	}
	w.mesh.Close()
	if w.meeting != nil {
		w.meeting.wg.Wait()
	}
	w.wg.Wait()
}

// MaxBlob is the largest blob that a rank may give to AllGather, in bytes.
const MaxBlob = exchange.MaxBlob

// AllGather gives every rank the blobs of all ranks: result[i] is rank i's. All ranks call it the same number of times
// and in the same order. A blob has at most MaxBlob bytes; blob is not kept, and the result is the caller's.
//
// A blob that is too large is an error before anything is sent. After any other error, a *Error, the call fails on all
// ranks that do not have all blobs yet, and every later one fails on all. The end of ctx is such an error, and so is
// the stall timeout, an ErrStalled: both name the rank at the end of the chain of waits. Calls of one World run one
// after the other.
func (w *World) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if len(blob) > MaxBlob {
		return nil, &Error{Self: w.cfg.Rank, Rank: w.cfg.Rank, Op: "AllGather",
			Err: fmt.Errorf("gave a blob of %d bytes, at most %d are possible", len(blob), MaxBlob)}
	}
	all, err := w.mesh.AllGather(ctx, w.wait, "AllGather", blob)
	if errors.Is(err, ErrFailed) {
		w.wait.PeerLost()
	}
	return all, w.fault("AllGather", err)
}

// fault returns the *Error for a failure of op.
func (w *World) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if known := new(Error); errors.As(err, &known) {
		return err
	}
	e := &Error{Self: w.cfg.Rank, Rank: -1, Op: op, Err: err}
	if f := new(exchange.Fault); errors.As(err, &f) {
		e.Rank, e.Err = f.Rank, f.Err
	}
	e.again = e.Rank >= 0 && w.Renews() && (errors.Is(err, ErrFailed) || errors.Is(err, ErrPeerClosed))
	return e
}
