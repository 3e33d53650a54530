package cuda

import (
	"cmp"
	"runtime"
	"time"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Event marks a place in a stream: Stream.Record sets it, others wait for it. Streams that wait for it when it is
// closed continue to wait. Query reports whether the work before it is done, and Synchronize waits for that; an event
// never recorded is done.
type Event struct {
	*progress
	handle driver.Event
}

// NewEvent makes an event. With timing, Since returns the time between two; that costs a little.
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
	return &Event{d.progress(c, kindEvent, h.Destroy, h.Query), h}, nil
}

// Since returns the device's time from one event to another; both were made with timing, recorded, and are done. Its
// resolution is about half a microsecond.
func (e *Event) Since(from *Event) (time.Duration, error) {
	if err := cmp.Or(e.Check(), from.Check()); err != nil {
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
