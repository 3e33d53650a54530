package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
)

// InFlight is a Request or a Message.
type InFlight interface {
	Wait(ctx context.Context) error
	Test() (bool, error)

	inner() comm.Request
}

func (r Request) inner() comm.Request { return r.request }
func (m Message) inner() comm.Request { return m.message }

// WaitAll returns when all of them are done on this rank. They may be of several communicators: those of each make
// progress while others wait. If one fails, WaitAll returns its error, which names it by its index, and some others may
// still be in flight, also those of other communicators. Requests and Messages mix as WaitAll[InFlight](ctx, r, m).
func WaitAll[R InFlight](ctx context.Context, all ...R) error {
	return comm.WaitAll(ctx, innerOf(all))
}

// WaitAny returns the index of one that is done on this rank, once there is one, or of one that has failed, with its
// error. Where several are done it is the lowest index. WaitAny ignores zero values, as a select ignores a nil channel,
// and returns -1 if there are no others: a loop replaces the returned one by the next, or by its zero value. With
// ErrBusy it returns -1, too, as none has failed. See also WaitAll.
func WaitAny[R InFlight](ctx context.Context, all ...R) (int, error) {
	return comm.WaitAny(ctx, innerOf(all))
}

func innerOf[R InFlight](all []R) []comm.Request {
	list := make([]comm.Request, len(all))
	for i, r := range all {
		if any(r) != nil {
			list[i] = r.inner()
		}
	}
	return list
}
