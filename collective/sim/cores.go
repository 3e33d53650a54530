package sim

import (
	"math"
	"slices"
)

// core is one core of a host whose ranks take turns on it: a rank keeps it as
// long as it has a step to take, then it goes round, from rank to rank in their
// order, until it comes to one that has.
type core struct {
	ranks int     // that take turns
	at    int     // whose turn it is
	since float64 // when the turn began, or a step ended in it
	busy  bool
	queue [][]int32 // by turn: tracks of the rank that wait for it
	count int       // of them all
	next  int       // the turn that it is on its way to, -1
	due   float64   // when it will be there
}

// corePlace is where a rank runs.
type corePlace struct {
	core int32 // of all hosts
	turn int   // which of the core's ranks it is
}

// places puts rank after rank of every host on its cores in turn, n ranks in all.
func places(hosts [][]int, n, each int) ([]corePlace, []core) {
	longest := slices.MaxFunc(hosts, func(a, b []int) int { return len(a) - len(b) })
	each = min(each, len(longest)) // no rank is on others
	all, cores := make([]corePlace, n), make([]core, len(hosts)*each)
	for h, ranks := range hosts {
		for i, rank := range ranks {
			c := h*each + i%each
			all[rank] = corePlace{int32(c), cores[c].ranks}
			cores[c].ranks++
		}
	}
	return all, cores
}

// turnsElapsed is the number of turns that have begun on an idle core since its last step ended; the latest may be on
// its way: the core goes round, as every rank that has its turn finds nothing to do and yields.
func (c *core) turnsElapsed(now, us float64) float64 {
	if us == 0 {
		return 0
	}
	return math.Ceil((now - c.since) / us * (1 - 1e-12))
}

// timeToTurn returns the time from now to the turn that follows turns turns after the elapsed ones.
func (c *core) timeToTurn(elapsed float64, turns int, now, us float64) float64 {
	return max(0, c.since+float64((elapsed+float64(turns))*us)-now)
}

// occupy gives track t the core of its rank, or leaves it waiting for that.
func (r *runner) occupy(t, rank int32) {
	if r.cores == nil {
		r.start(t)
		return
	}
	c := &r.cores[r.places[rank].core]
	if c.queue == nil {
		c.queue = make([][]int32, c.ranks)
	}
	turn := r.tracks[t].turn
	c.queue[turn] = append(c.queue[turn], t)
	c.count++
	if !c.busy {
		r.goRound(r.places[rank].core)
	}
}

// goRound lets a core go to the first of those that wait for it.
func (r *runner) goRound(core int32) {
	c := &r.cores[core]
	switch {
	case c.count == 0:
		return
	case c.ranks == 1: // it is always its turn
		c.next = 0
		r.serve(c)
		return
	}
	elapsed := c.turnsElapsed(r.now, r.m.SwitchUs)
	at := c.at + int(math.Mod(elapsed, float64(c.ranks)))
	least := 0
	for len(c.queue[(at+least)%c.ranks]) == 0 {
		least++
	}
	best := (at + least) % c.ranks
	us := c.timeToTurn(elapsed, least, r.now, r.m.SwitchUs)
	switch {
	case us == 0:
		c.next = best
		r.serve(c)
	case c.next != best || c.due != r.now+us:
		c.next, c.due = best, r.now+us
		r.push(c.due, turned, core)
	}
}

// arrive serves the track to which a core was on its way, unless another one
// that it came by has it.
func (r *runner) arrive(core int32) {
	if c := &r.cores[core]; !c.busy && c.count > 0 && c.due == r.now {
		r.serve(c)
	}
}

// serve begins the step of the track that c has come to.
func (r *runner) serve(c *core) {
	t := c.queue[c.next][0]
	c.queue[c.next] = c.queue[c.next][1:]
	c.count--
	c.busy, c.at, c.next = true, int(r.tracks[t].turn), -1
	r.start(t)
}

// handOn ends a step of rank on its core, which then serves other ranks, or another step of the same rank.
func (r *runner) handOn(rank int32) {
	core := r.places[rank].core
	c := &r.cores[core]
	c.busy, c.since, c.next = false, r.now, -1
	r.goRound(core)
}
