package agent

import (
	"os"
	"sync"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/remote"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// uplink is the connection to the launcher, or to the agent above. Its methods
// may be called concurrently.
type uplink struct {
	out   *os.File
	alive *wire.Frame

	mu     sync.Mutex
	queue  []*wire.Frame // what the launcher has not made room for is not in it
	wake   chan struct{}
	ending bool          // nothing more will be sent
	done   chan struct{} // closed when nothing more will be written
	gone   chan struct{} // closed when the launcher is lost

	said   bool // something was sent since the last beat
	missed int  // beats since the launcher was heard
	paused bool // it will be silent
}

// longWrite is how long the last frames may take.
const longWrite = 5 * time.Second

func newUplink(out *os.File) *uplink {
	u := &uplink{out: out, wake: make(chan struct{}, 1), done: make(chan struct{}), gone: make(chan struct{})}
	u.alive = &wire.Frame{}
	if f, err := wire.Encode(0, &wire.Alive{}); err == nil {
		u.alive = f
	}
	go u.write()
	return u
}

// send queues a frame. It does not wait.
func (u *uplink) send(f *wire.Frame) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ending {
		return
	}
	u.queue = append(u.queue, f)
	u.said = true
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *uplink) write() {
	defer close(u.done)
	var buf []byte
	for {
		u.mu.Lock()
		buf = buf[:0]
		for _, f := range u.queue {
			buf = f.Append(buf)
		}
		u.queue = nil
		ending := u.ending
		u.mu.Unlock()
		if len(buf) > 0 {
			if _, err := u.out.Write(buf); err != nil {
				return // its end of file tells the reader
			}
			continue
		}
		if ending {
			return
		}
		select {
		case <-u.wake:
		case <-u.gone:
			return
		}
	}
}

// close returns when everything has been written.
func (u *uplink) close() {
	u.mu.Lock()
	u.ending = true
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
	select {
	case <-u.done:
	case <-time.After(longWrite):
	}
}

// abandon drops everything: the launcher is lost.
func (u *uplink) abandon() {
	u.mu.Lock()
	u.ending, u.queue = true, nil
	u.mu.Unlock()
	close(u.gone)
	_ = u.out.Close()
}

// heard notes a sign of life.
func (u *uplink) heard(pause bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.missed, u.paused = 0, pause
}

// beat gives a sign of life where one is due, and tells whether the launcher has
// given none for too long.
func (u *uplink) beat() (lost bool) {
	u.mu.Lock()
	said := u.said
	u.mu.Unlock()
	if !said {
		u.send(u.alive)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.said = false
	if u.paused {
		return false
	}
	u.missed++
	return u.missed == remote.Beats+1
}
