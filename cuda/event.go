package cuda

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Event marks a place in a stream: Stream.Record sets it, others wait for it. Streams
// that wait for it when it is closed go on waiting.
type Event struct {
	*resource
	handle driver.Event
}

// NewEvent makes an event. With timing, Since tells the time between two; that
// costs a little.
func (d *Device) NewEvent(timing bool) (*Event, error) {
	kind := driver.EventUntimed
	if timing {
		kind = driver.EventTimed
	}
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	h, r := c.NewEvent(kind)
	if r != driver.Success {
		return nil, failed(d, "cuEventCreate", "", r)
	}
	e := &Event{handle: h}
	e.resource = own(e, &resource{device: d, context: c, kind: kindEvent, release: h.Destroy})
	return e, nil
}

// Query tells whether the work before the event is done, and returns the error
// of the work if it failed. It does not wait. An event never recorded is done.
func (e *Event) Query() (bool, error) {
	if err := e.Check(); err != nil {
		return false, err
	}
	r := e.handle.Query(e.context)
	runtime.KeepAlive(e)
	if r == driver.NotReady {
		return false, nil
	}
	return r == driver.Success, failed(e.device, "cuEventQuery", "", r)
}

// Synchronize waits until the work before the event is done, and returns the
// error of the work if it failed, or that ctx ended: then the work goes on.
func (e *Event) Synchronize(ctx context.Context) error {
	err := poll(ctx, e.Query)
	if err != nil && ctx.Err() == err {
		return fmt.Errorf("cuda: wait for an event of %s: %w", e.device, err)
	}
	return err
}

// Since returns the device's time from one event to another; both were made
// with timing, recorded, and are done. Its steps are about half a microsecond.
func (e *Event) Since(from *Event) (time.Duration, error) {
	if err := e.Check(); err != nil {
		return 0, err
	}
	if err := from.Check(); err != nil {
		return 0, err
	}
	ms, r := e.handle.Since(e.context, from.handle)
	runtime.KeepAlive(e)
	runtime.KeepAlive(from)
	if err := failed(e.device, "cuEventElapsedTime", "", r); err != nil {
		return 0, err
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
