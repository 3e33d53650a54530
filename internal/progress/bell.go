package progress

import "time"

// Bell is the place where one rank sleeps until one of its links has something new. The owner is one goroutine; any
// goroutine may call Ring, at any time.
//
// The owner sleeps without missing a wake-up like this:
//
//	bell.Prepare()
//	if poll() { bell.Cancel() } else { bell.Sleep(limit) }
//
// Commit and Release of a peer ring the bell only when it is prepared, which
// keeps the fast path free of system calls.
type Bell interface {
	Ring()                     // wake the owner if it has prepared to sleep, otherwise do nothing
	Prepare()                  // owner: announce the sleep; poll once more after it
	Cancel()                   // owner: the last poll found something
	Sleep(limit time.Duration) // owner: until rung after Prepare, or limit has passed
	Yield()                    // owner: let another process or goroutine run, soon

	// SleepAny is Sleep on several prepared Bells of this process, b among them, until one of them was rung. It may end
	// early. All have one owner.
	SleepAny(bells []Bell, limit time.Duration)
}
