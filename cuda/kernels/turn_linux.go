package kernels

import (
	"os"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/backoff"
)

// maxTurn bounds the wait for another process, whose driver may wait for its device first.
const maxTurn = 9 * time.Second

// inTurn calls load, which has the driver compile. Of the processes of a program on this host the first one compiles
// alone, and the others, which wait, find its result in the driver's cache, all at once. They meet at the program's
// file, whose lock the system releases when a process ends. Where it cannot be locked none waits.
func inTurn(load func() error) error {
	if f, err := os.Open("/proc/self/exe"); err == nil && os.Getenv("CUDA_CACHE_DISABLE") != "1" {
		defer f.Close() // and with it the lock
		how, end := syscall.LOCK_EX, time.Now().Add(maxTurn)
		backoff.Until(time.Millisecond, func() bool {
			err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
			how = syscall.LOCK_SH
			return err != syscall.EWOULDBLOCK && err != syscall.EINTR || time.Now().After(end)
		})
	}
	return load()
}
