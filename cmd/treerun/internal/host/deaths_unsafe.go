//go:build linux

package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// deaths waits for the marks that the kernel leaves when ranks begin to end (job.MarkAt): one goroutine sleeps on the
// words of up to maxWords ranks at once. It only passes the addresses to the kernel, since a rank may truncate the file
// behind them. Before Linux 5.16 it does nothing; checkDying finds the marks later.
type deaths struct {
	begun func(*child) // called by the goroutine

	mu      sync.Mutex
	waiting []watched
	changed uint32 // a futex of its own: changes when waiting does
	running bool
	closed  bool
}

// watched is a rank and the page of its job file in which its mark is.
type watched struct {
	c    *child
	page []byte
	word uint32 // the contents of its mark while it lives
}

// maxWords is the number of words that the kernel waits for at once, less the one for changes.
const maxWords = 127

// add waits for the end of a rank, and reports whether it does: the rank may not have left its mark yet.
func (d *deaths) add(c *child) bool {
	pid, word := c.mark()
	if pid != c.pid || word&job.MarkWaited == 0 || word&job.MarkDied != 0 {
		return false
	}
	page, err := unix.Mmap(int(c.file.Fd()), 0, job.MarkAt+job.MarkBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.waiting) == maxWords {
		_ = unix.Munmap(page)
		return false
	}
	d.waiting = append(d.waiting, watched{c, page, word})
	if !d.running {
		d.running = true
		go d.run()
	}
	d.change()
	return true
}

// close ends the goroutine.
func (d *deaths) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.change()
}

// change wakes the goroutine. The caller holds mu.
func (d *deaths) change() {
	atomic.AddUint32(&d.changed, 1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&d.changed)), futexWake|futexPrivate, 1)
}

// Of linux/futex.h.
const (
	futexWake    = 1
	futexPrivate = 128
	futex32      = 2
)

// futexWaitV is struct futex_waitv of the kernel.
type futexWaitV struct {
	value, address uint64
	flags, _       uint32
}

func (d *deaths) run() {
	for {
		d.mu.Lock()
		if d.closed {
			for _, w := range d.waiting {
				_ = unix.Munmap(w.page)
			}
			d.waiting = nil
			d.mu.Unlock()
			return
		}
		words := []futexWaitV{{value: uint64(atomic.LoadUint32(&d.changed)), flags: futex32 | futexPrivate,
			address: uint64(uintptr(unsafe.Pointer(&d.changed)))}}
		for _, w := range d.waiting {
			words = append(words, futexWaitV{value: uint64(w.word), flags: futex32,
				address: uint64(uintptr(unsafe.Pointer(&w.page[job.MarkAt])))})
		}
		d.mu.Unlock()
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&words[0])), uintptr(len(words)),
			0, 0, 0, 0)
		runtime.KeepAlive(words)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
			d.close() // the system has no such call, or a rank has truncated its file
			continue
		}
		d.check()
	}
}

// check reports the ranks that have begun to end, and forgets them.
func (d *deaths) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := d.waiting[:0]
	for _, w := range d.waiting {
		if _, word := w.c.mark(); word == w.word {
			rest = append(rest, w)
			continue
		}
		_ = unix.Munmap(w.page)
		d.begun(w.c)
	}
	clear(d.waiting[len(rest):])
	d.waiting = rest
}
