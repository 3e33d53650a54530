package collective

import "github.com/treerun/treerun/collective/internal/exec"

// waiterFor returns how a rank waits when size ranks share cores.
//
// Ranks with a core of their own poll for about the time of a message, then
// yield between polls: on a core that nobody else wants a yield costs 0.1 us,
// and where the kernel has put two ranks on one core, or another job runs, it
// lets the other one get on (polling on there costs 100 us per message instead
// of 10). They sleep late: a wake-up between cores costs 10 to 30 us.
//
// Ranks that share cores hand them over at once, and sleep when that did not
// help a few times over: a rank that is computing must not be interrupted by
// others that have nothing to do.
func waiterFor(size, cores int) exec.Waiter {
	if size <= cores {
		return exec.Waiter{Spins: 100, Yields: 2000}
	}
	return exec.Waiter{Spins: 1, Yields: 60}
}
