package osys

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// seals fix the size of a memory file forever: a peer that could shrink it would kill this process with SIGBUS at the
// next access.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// CreateSealed makes an anonymous memory file of total bytes, which no process can resize, and returns its descriptor.
// The first size bytes are allocated at once, the others when they are written to. The name is for /proc only. Nothing
// is left in any file system. The caller closes the descriptor.
func CreateSealed(name string, size, total int) (fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	if err = Allocate(fd, 0, size); err != nil {
		return fd, err
	}
	if err = retry(func() error { return unix.Ftruncate(fd, int64(total)) }); err != nil {
		return fd, fmt.Errorf("ftruncate to %d bytes of shared memory: %w (%s)", total, err, hintFor(err))
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fd, fmt.Errorf("fcntl(F_ADD_SEALS): %w", err)
	}
	return fd, nil
}

// Allocate gives the file n bytes of memory from offset on, or returns an error when there is not enough.
func Allocate(fd int, offset, n int) error {
	if err := checkFree(int64(n)); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Fallocate(fd, 0, int64(offset), int64(n)) }); err != nil {
		return fmt.Errorf("fallocate of %d bytes of shared memory: %w (%s)", n, err, hintFor(err))
	}
	return nil
}

// Deallocate removes the memory of n bytes from offset on from the file; they read as zeros.
func Deallocate(fd int, offset, n int) error {
	err := retry(func() error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(n))
	})
	if err != nil {
		return fmt.Errorf("fallocate(FALLOC_FL_PUNCH_HOLE) of %d bytes of shared memory: %w", n, err)
	}
	return nil
}

const memoryHint = "hint: use fewer ranks or smaller slots, or raise the memory limit of the container"

// hintFor returns the remedy for an error of a call that sizes a memory file.
func hintFor(err error) string {
	if errors.Is(err, unix.EFBIG) { // nothing of it is written to a disk, and little of it is ever in memory
		return "hint: memory that ranks share counts as a file: ulimit -f unlimited"
	}
	return memoryHint
}

// checkFree returns an error when size is more than the free memory. The kernel would not: a memory file has no limit
// of its own, and fallocate continues until the out-of-memory killer ends processes of any user.
//
// Links are opened by the dozen, and the free memory is read from several files: after one check, a small part of it
// may be taken without another.
func checkFree(size int64) error {
	looked.Lock()
	defer looked.Unlock()
	if now := time.Now(); size > looked.left || now.After(looked.until) {
		free, ok := freeMemory()
		if ok && size > free {
			return fmt.Errorf("%w: %d bytes of shared memory needed, %d available (%s)", unix.ENOMEM, size, free, memoryHint)
		}
		looked.left, looked.until = size+free/lookedPart, now.Add(lookedFor)
	}
	looked.left -= size
	return nil
}

// looked is how much of the free memory may be taken without another check, and until when.
var looked struct {
	sync.Mutex
	left  int64
	until time.Time
}

const (
	lookedPart = 256 // of the free memory, as there may be as many ranks
	lookedFor  = 50 * time.Millisecond
)

// CheckSealed returns an error unless fd is a memory file of exactly size
// bytes whose size can no longer change.
func CheckSealed(fd, size int) error {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("fcntl(F_GET_SEALS): %w", err)
	}
	if got&seals != seals {
		return fmt.Errorf("memory file has seals %#x, want at least %#x", got, seals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("fstat of the memory file: %w", err)
	}
	if st.Size != int64(size) {
		return fmt.Errorf("memory file of %d bytes, want %d", st.Size, size)
	}
	return nil
}

// CloseFD closes a descriptor.
func CloseFD(fd int) error { return unix.Close(fd) }

// Prefault makes the pages of b, part of a mapping, present for writing, so
// that their first use costs no page fault. It is advice: kernels before 5.14
// do not know it, and the first use then faults as usual.
func Prefault(b []byte) {
	const page = 4096
	if len(b) >= page {
		_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	}
}

// retry calls f until it is not interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// LimitsAddresses reports whether the addresses that this process may have are limited.
func LimitsAddresses() bool {
	var r unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_AS, &r) == nil && r.Cur != unix.RLIM_INFINITY
}
