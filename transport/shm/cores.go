package shm

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// cores keeps ranks that wait on different cores. Each publishes the core that it runs on. One that runs on the core of
// another rank yields, as that rank cannot run meanwhile, and moves away if that rank is a lower one. The kernel leaves
// them there: a rank that yields is idle to it. A rank that has its core for itself never yields: beside a program that
// computes, one yield takes a whole slice of time.
//
// One goroutine uses it. What another rank publishes may be out of date. Then both compare again when they next wait.
type cores struct {
	own    *uint32   // the word in which this rank publishes its core
	others []*uint32 // those of the other ranks, the lower ones first
	lower  int       // how many of them are lower
	system fs.FS

	published uint32
	polls     uint
	idle      map[int]uint64 // the idle times at the last attempt to move; before it those at the start of the machine
	next      time.Time      // no attempt to move before it
}

// newCores returns the cores of a rank of a layout.
func newCores(e *segment.Endpoint, l *transport.Layout, rank int) *cores {
	c := &cores{own: e.CoreWord(rank), system: os.DirFS("/")}
	for i := range l.MemberCount() {
		r := l.Member(i)
		if r != rank {
			c.others = append(c.others, e.CoreWord(r))
		}
		if r < rank {
			c.lower++
		}
	}
	return c
}

// coreEvery is the number of polls after which a rank looks at its core again, where that takes as long as a poll.
const coreEvery = 16

// apart reports whether no other rank runs on the core of this rank. It may move this rank.
func (c *cores) apart() bool {
	if c.polls++; osys.QuickCore || c.polls%coreEvery == 1 {
		c.publish(osys.Core())
	}
	for i, w := range c.others {
		if atomic.LoadUint32(w) != c.published {
			continue
		}
		if i < c.lower {
			c.move()
		}
		return false
	}
	return true
}

// publish publishes the core of this rank.
func (c *cores) publish(core int) {
	if word := uint32(core) + 1; word != c.published {
		c.published = word
		atomic.StoreUint32(c.own, word)
	}
}

// follow moves the calling thread to the core that this rank has published.
func (c *cores) follow() {
	if core := int(c.published) - 1; core >= 0 && core != osys.Core() {
		_ = osys.MoveThread(core)
	}
}

// After a rank has looked for a core it does not look again for pauseFactor times as long as that took.
const pauseFactor = 10

// move moves this rank to the best core that no rank has, if there is one.
func (c *cores) move() {
	begin := time.Now()
	if begin.Before(c.next) {
		return
	}
	taken := []int{int(c.published) - 1}
	for _, w := range c.others {
		taken = append(taken, int(atomic.LoadUint32(w))-1)
	}
	free := slices.DeleteFunc(osys.Cores(), func(core int) bool { return slices.Contains(taken, core) })
	if len(free) > 1 {
		idle := idleTimes(c.system)
		free = bestCores(c.system, free, taken, func(core int) uint64 { return idle[core] - c.idle[core] })
		c.idle = idle
	}
	took := time.Since(begin)
	if len(free) > 0 {
		c.publish(free[0]) // first, so that no other rank moves there
		_ = osys.MoveThread(free[0])
	}
	c.next = time.Now().Add(pauseFactor * took)
}

// bestCores sorts free cores: those without a sibling thread that is taken before others, and among these the ones that
// were idle longest.
func bestCores(system fs.FS, free, taken []int, idle func(core int) uint64) []int {
	siblings := func(core int) string { return cpu.Read(system, core, cpu.Siblings) } // "" if they are not known
	shared := map[string]int{}
	for _, core := range taken {
		shared[siblings(core)] = 1
	}
	delete(shared, "")
	rank := map[int]int{}
	for _, core := range free {
		rank[core] = shared[siblings(core)]
	}
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Or(rank[a]-rank[b], cmp.Compare(idle(b), idle(a))) })
	return free
}

// idleTimes returns how long each core has been idle or has waited for a disk, in ticks since the start of the machine.
func idleTimes(system fs.FS) map[int]uint64 {
	times := map[int]uint64{}
	text, _ := fs.ReadFile(system, "proc/stat")
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 6 || !strings.HasPrefix(words[0], "cpu") {
			break
		}
		if core, err := strconv.Atoi(words[0][len("cpu"):]); err == nil { // one line is of all cores
			idle, _ := strconv.ParseUint(words[4], 10, 64)
			disk, _ := strconv.ParseUint(words[5], 10, 64)
			times[core] = idle + disk
		}
	}
	return times
}
