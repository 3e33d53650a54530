package setup

import (
	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/internal/numbers"
)

// waiterFor returns how a rank waits where the ranks of its host share cores.
//
// Ranks with a core of their own poll for about the time of a message. Then each compares its core with those of the
// other ranks (shm.Config.OwnCores): on a core of its own it continues to poll, on one that it shares it moves or
// yields between polls. Where ranks are not known to have own cores, as goroutines of one process, all yield: on a core
// without another runnable thread a yield costs 0.1 us, and where the kernel has put two ranks on one core, or another
// job runs, it lets the other one run (continuing to poll there costs 100 us per message instead of 10). They sleep
// late, after 0.3 ms: a wake-up between cores costs 10 to 30 us.
//
// Ranks that share cores hand them over at once, and sleep when that did not
// help a few times over: a rank that is computing must not be interrupted by
// others that have nothing to do. Measured with 4 ranks on 2 cores, AllReduce of 8
// bytes: 7.4 us with one poll, 7.7 with 5, 9.0 with 15. How many yields follow makes no
// difference from 60 on once all ranks are at it, but while some are late, as in the
// first calls of a job, ranks that slept too soon took 46 to 88 us for a Reduce of
// 4 KiB (8 ranks), and 45 to 48 with 600 yields.
//
// Where ranks are on several hosts a poll looks at sockets, which costs a system call, and messages have been under way
// for tens of microseconds: nearly every poll is followed by a yield. With 50, 200 and 2000 of them an AllReduce of 8
// bytes over four hosts on two cores took 67, 59 and 47 us.
func waiterFor(hosts []int, rank, cores int, own bool) engine.Waiter {
	size := len(neighbors(hosts, rank))
	switch {
	case !OneHost(hosts) && size <= cores:
		return engine.Waiter{Spins: 10, Yields: 2000, Pollers: cores / size}
	case own:
		return engine.Waiter{Spins: 100, Yields: 10_000, Pollers: cores / size}
	case size <= cores:
		return engine.Waiter{Spins: 100, Yields: 2000, Pollers: cores / size}
	}
	return engine.Waiter{Spins: 1, Yields: 600, SpinsLong: OneHost(hosts)}
}

// ownCores reports whether every rank of the job, all on one host, has a core of its own, and can publish it.
func ownCores(w World) bool {
	job, _ := inJob(w, 0)
	return OneHost(HostsOf(job)) && job.Size() <= usableCores(w) && !InOneProcess(job)
}

// RanksOnCores returns, for every rank, how many share its cores, it among them: those with the same
// number in machines, or where that is not of all ranks, on the same host.
func RanksOnCores(machines, hosts []int) []int {
	if len(machines) != len(hosts) {
		machines = hosts
	}
	return numbers.GroupSizes(machines)
}
