package mixed

import (
	"time"

	"github.com/treerun/treerun/transport"
)

// bell is a rank's bell: the local one, on which it sleeps, and whatever the
// remote side does to make its descriptor readable.
type bell struct {
	local  SleeperOn
	remote transport.Bell
	fd     int         // of the remote side
	serve  func() bool // looks what is in it
}

// Ring wakes the owner if it has prepared to sleep.
func (b *bell) Ring() { b.local.Ring() }

// Prepare announces the sleep.
func (b *bell) Prepare() {
	b.local.Prepare()
	b.remote.Prepare()
}

// Cancel ends the sleep that Prepare announced.
func (b *bell) Cancel() {
	b.remote.Cancel()
	b.local.Cancel()
}

// Sleep blocks until either side rings after Prepare, or max has passed.
func (b *bell) Sleep(max time.Duration) {
	b.local.SleepOn(b.fd, max, b.serve)
	b.remote.Cancel()
}

// Yield lets another process run.
func (b *bell) Yield() { b.local.Yield() }
