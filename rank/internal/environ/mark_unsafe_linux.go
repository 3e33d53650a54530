package environ

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
)

// robustList is the head of the kernel's list of the robust locks of a thread, which has one entry here.
type robustList struct {
	next    *robustList
	offset  uintptr // from an entry, a list of its own, to its word
	pending *robustList
}

// mark lets the launcher see the end of this process when it begins. The system reports it to the launcher only after
// it has taken the memory back, which takes a second for 8 GiB, and longer where a driver has pinned it. But before
// that the kernel marks the locks of the thread as those of a dead owner: here a word of the memory file, which the
// launcher reads. In the same memory the launcher publishes news, and this process its status and its recording, which
// has room for this number of events. Where the system refuses a step there is none of them.
func mark(file *os.File, events int) (*News, *status.Page, *record.Writer) {
	size := job.StatusAt + status.Bytes
	if events > 0 {
		size = job.StatusAt + record.At + record.Bytes(events)
	}
	if file.Truncate(int64(size)) != nil {
		return nil, nil, nil
	}
	page, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, nil
	}
	const headAt, entryAt = 64, 128
	head, entry := (*robustList)(unsafe.Pointer(&page[headAt])), (*robustList)(unsafe.Pointer(&page[entryAt]))
	head.next, head.offset, entry.next = entry, job.MarkAt-entryAt, head
	go func() {
		runtime.LockOSThread() // forever: the list belongs to a thread, which lives as long as the process
		words := (*[job.MarkBytes / 4]uint32)(unsafe.Pointer(&page[job.MarkAt]))
		words[1] = uint32(os.Getpid())
		atomic.StoreUint32(&words[0], uint32(syscall.Gettid())|job.MarkWaited)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(head)), unsafe.Sizeof(*head), 0)
		select {}
	}()
	var recording *record.Writer
	if events > 0 {
		recording = record.NewWriter(page[job.StatusAt+record.At:], events)
	}
	news := &News{page, (*uint32)(unsafe.Pointer(&page[job.NewsCountAt]))}
	return news, status.NewPage(page[job.StatusAt:]), recording
}
