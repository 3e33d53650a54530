package mixed

import (
	"time"

	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// bell is a rank's bell: the local one, on which it sleeps, and that of the remote
// side, which makes its descriptor readable.
type bell struct {
	local  *shm.Doorbell
	remote *tcp.Endpoint
}

// Ring wakes the owner if it has prepared to sleep.
func (b *bell) Ring() { b.local.Ring() }

// Prepare announces the sleep.
func (b *bell) Prepare() {
	b.local.Prepare()
	b.remote.Bell().Prepare()
}

// Cancel ends the sleep that Prepare announced.
func (b *bell) Cancel() {
	b.remote.Bell().Cancel()
	b.local.Cancel()
}

// Sleep blocks until either side rings after Prepare, or max has passed.
func (b *bell) Sleep(max time.Duration) {
	b.local.SleepOn(b.remote.PollFD(), max, b.remote.Progress)
	b.remote.Bell().Cancel()
}

// Yield lets another process run.
func (b *bell) Yield() { b.local.Yield() }
