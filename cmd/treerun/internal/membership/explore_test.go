package membership

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// doing is what the process of a rank does, as the test sees it.
type doing int

const (
	working doing = iota // in an epoch
	begins               // it has been started, and has not renewed
	waits                // it has renewed
	joins                // it has been started, and no epoch waits for it
	stuck                // it has given up its wait
	closed
	dead
)

// scene is a job: its membership, and a simple account of its processes, which only events and orders change.
type scene struct {
	m       Machine
	ranks   []process
	ended   bool        // the epoch is over for its ranks
	members map[int]int // of the latest epoch: rank to process
	starts  int
	back    bool // a host has come back, which happens once
	over    bool // the job has ended
	path    []string
}

type process struct {
	doing  doing
	number int // of the rank's processes
}

func newScene(cfg Config) *scene {
	s := &scene{m: *New(cfg), ranks: make([]process, cfg.Size), members: map[int]int{}}
	for r := range s.ranks {
		s.members[r] = 0
	}
	return s
}

func (s *scene) clone() *scene {
	next := *s
	next.m.ranks, next.ranks, next.path = slices.Clone(s.m.ranks), slices.Clone(s.ranks), slices.Clone(s.path)
	return &next // members is replaced, never changed
}

// key is the state without numbers that only rise.
func (s *scene) key() string {
	m := s.m
	m.epoch = 0
	text := fmt.Sprintf("%+v %v %v %v", m, s.ended, s.over, s.back)
	for r, p := range s.ranks {
		old, was := s.members[r]
		text += fmt.Sprint(" ", p.doing, was, old == p.number)
	}
	return text
}

// lives reports whether a rank is expected in the next epoch.
func (p process) lives() bool { return p.doing < closed }

// step is an event of a rank.
type step struct {
	name string
	rank int
}

// steps returns the events that are possible.
func (s *scene) steps() (list []step) {
	for r, p := range s.ranks {
		if p.doing == working || p.doing == begins || p.doing == joins {
			list = append(list, step{"renews", r})
		}
		if p.doing == dead && len(s.ranks) < 4 && !s.back && s.m.Missing() {
			list = append(list, step{"has its host back", r})
		}
		if p.doing == working {
			list = append(list, step{"closes", r})
		}
		if p.doing == working || p.doing == waits {
			list = append(list, step{"withdraws", r})
		}
		if p.lives() {
			list = append(list, step{"is lost", r}, step{"is lost with its host", r})
		}
		if p.doing == closed {
			list = append(list, step{"is lost", r})
		}
	}
	return list
}

// take gives the membership an event, and carries out its orders.
func (s *scene) take(e step) error {
	s.path = append(s.path, fmt.Sprintf("rank %d %s", e.rank, e.name))
	p, before := &s.ranks[e.rank], s.ended
	applies := p.doing == joins || p.doing == waits && !before // no epoch has it or waits for it
	var orders []Order
	switch e.name {
	case "has its host back":
		s.back = true
		orders = s.m.HostBack([]int{e.rank})
		if !slices.Equal(orders, []Order{Start{e.rank, true}}) {
			return fmt.Errorf("orders %v, want a start", orders)
		}
	case "renews":
		p.doing, s.ended = waits, before || !applies
		orders = s.m.Renewed(e.rank)
	case "withdraws":
		if p.doing, s.ended = stuck, before || !applies; applies {
			p.doing = closed
		}
		orders = s.m.Withdrew(e.rank)
	case "closes":
		p.doing = closed
		orders = s.m.Closed(e.rank)
	default:
		if p.doing == closed {
			orders = s.m.Lost(e.rank, true)
			if len(orders) > 0 {
				return fmt.Errorf("orders %v after the end of a rank that had closed", orders)
			}
			return nil
		}
		p.doing, s.ended = dead, before || !applies
		orders = s.m.Lost(e.rank, e.name == "is lost")
	}
	revoked := len(orders) > 0 && orders[0] == Order(Revoke{s.m.Epoch(), e.rank})
	if _, begun := last(orders).(Begin); begun && e.name == "renews" && !before {
		revoked = orders[0] == Order(Revoke{s.m.Epoch() - 1, e.rank})
	}
	if want := e.name == "renews" && !before && !applies; revoked != want {
		return fmt.Errorf("orders %v, want a revoke: %v", orders, want)
	}
	for _, o := range orders {
		if err := s.obey(o, e); err != nil {
			return fmt.Errorf("order %v: %w", o, err)
		}
	}
	return s.check()
}

func last(orders []Order) Order {
	if len(orders) == 0 {
		return nil
	}
	return orders[len(orders)-1]
}

// obey carries out an order, and checks it.
func (s *scene) obey(o Order, after step) error {
	switch o := o.(type) {
	case Revoke:
	case Notify:
		if s.ended || slices.ContainsFunc(s.ranks, func(p process) bool { return p.doing == joins }) {
			return fmt.Errorf("not all wait, or the epoch is over: %v", s.ended)
		}
	case Leave:
		s.ranks[o.Rank].doing = closed
	case Start:
		if o.Added {
			s.ranks[o.Rank].doing = joins
			s.ranks[o.Rank].number++
			return nil
		}
		if s.starts++; after.name != "is lost" || o.Rank != after.rank || s.m.cfg.Policy != Respawn {
			return fmt.Errorf("rank %d does not have to start", o.Rank)
		}
		s.ranks[o.Rank].doing = begins
		s.ranks[o.Rank].number++
	case End:
		s.over = true
		return s.mayEnd()
	case Begin:
		return s.begin(o)
	default:
		return fmt.Errorf("unexpected")
	}
	return nil
}

// mayEnd returns an error unless the job has a reason to end.
func (s *scene) mayEnd() error {
	living, lost, done := 0, 0, 0
	for _, p := range s.ranks {
		switch {
		case p.lives():
			living++
		case p.doing == dead:
			lost++
		default:
			done++
		}
	}
	few := living < max(s.m.cfg.MinSize, 1) && (living > 0 || done == 0 || s.m.cfg.Policy == Respawn)
	if noMore := s.m.cfg.Policy == Respawn && s.starts == s.m.cfg.MaxRestarts && lost > 0; !few && !noMore {
		return fmt.Errorf("%d ranks live, %d starts", living, s.starts)
	}
	return nil
}

// begin checks the beginning of an epoch, and its Lost and Joined.
func (s *scene) begin(b Begin) error {
	var ranks, lost, joined []int
	members := map[int]int{}
	for r, p := range s.ranks {
		old, was := s.members[r]
		switch {
		case p.doing < waits, p.doing == stuck:
			return fmt.Errorf("rank %d has not renewed", r)
		case p.doing == waits:
			ranks = append(ranks, r)
			members[r] = p.number
			if !was || old != p.number {
				joined = append(joined, r)
			}
			s.ranks[r].doing = working
		}
		if was && (p.doing == dead || old != p.number) {
			lost = append(lost, r)
		}
	}
	if !slices.Equal(b.Ranks, ranks) || !slices.Equal(b.Lost, lost) || !slices.Equal(b.Joined, joined) {
		return fmt.Errorf("want ranks %v, lost %v, joined %v", ranks, lost, joined)
	}
	if b.Epoch != s.m.Epoch() || len(b.Ranks) < max(1, s.m.cfg.MinSize) || !s.ended {
		return fmt.Errorf("epoch %d of the membership, ended %v", s.m.Epoch(), s.ended)
	}
	s.members, s.ended = members, false
	return nil
}

// check returns an error for a state that must not be.
func (s *scene) check() error {
	waiting, others := 0, 0
	for _, p := range s.ranks {
		if p.doing == waits {
			waiting++
		} else if p.lives() {
			others++
		}
	}
	switch {
	case s.starts > s.m.cfg.MaxRestarts || s.starts != s.m.Restarts():
		return fmt.Errorf("%d starts, at most %d; the membership counts %d", s.starts, s.m.cfg.MaxRestarts, s.m.Restarts())
	case !s.over && waiting > 0 && others == 0:
		return fmt.Errorf("all ranks that live wait")
	}
	return nil
}

// finish has every rank that lives renew, or end if it cannot. The job must be in another epoch then, or have ended.
func (s *scene) finish() error {
	if !s.ended {
		return nil
	}
	for r := range s.ranks {
		if !s.over && s.ended && s.ranks[r].doing == stuck {
			if err := s.take(step{"is lost with its host", r}); err != nil {
				return err
			}
		}
	}
	for r, p := range s.ranks {
		if !s.over && s.ended && (p.doing == working || p.doing == begins || p.doing == joins) {
			if err := s.take(step{"renews", r}); err != nil {
				return err
			}
		}
	}
	if open := func(p process) bool { return p.lives() }; s.ended && !s.over && slices.ContainsFunc(s.ranks, open) {
		return fmt.Errorf("no other epoch begins")
	}
	return nil
}

// TestEveryOrder takes three ranks, or four, through every order of events: in all states ranks renew, close, give up,
// and are lost, with or without their host, which may, for three, come back once.
func TestEveryOrder(t *testing.T) {
	for _, cfg := range []Config{
		{Policy: Shrink, Size: 3, MinSize: 1}, {Policy: Shrink, Size: 3, MinSize: 2}, {Policy: Shrink, Size: 4, MinSize: 2},
		{Policy: Respawn, Size: 3, MinSize: 1}, {Policy: Respawn, Size: 3, MinSize: 1, MaxRestarts: 1},
		{Policy: Respawn, Size: 3, MinSize: 1, MaxRestarts: 3}, {Policy: Respawn, Size: 3, MinSize: 3, MaxRestarts: 2},
		{Policy: Respawn, Size: 4, MinSize: 2, MaxRestarts: 1},
	} {
		t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
			t.Parallel()
			seen, queue, moves := map[string]bool{}, []*scene{newScene(cfg)}, 0
			for len(queue) > 0 {
				s := queue[0]
				queue = queue[1:]
				if end := s.clone(); !s.over {
					if err := end.finish(); err != nil {
						t.Fatalf("%v\nafter %q", err, end.path)
					}
				}
				for _, e := range s.steps() {
					next, epoch := s.clone(), s.m.Epoch()
					moves++
					if err := next.take(e); err != nil {
						t.Fatalf("%v\nafter %q", err, next.path)
					}
					if n := next.m.Epoch(); n != epoch && n != epoch+1 {
						t.Fatalf("epoch %d after %d\nafter %q", n, epoch, next.path)
					}
					if k := next.key(); !seen[k] && !next.over {
						seen[k] = true
						queue = append(queue, next)
					}
				}
			}
			t.Logf("%d states, %d moves", len(seen), moves)
			if len(seen) < 20 {
				t.Errorf("%d states: the test does not get far", len(seen))
			}
		})
	}
}

// After the order that ends a job, or restarts it, nothing that happens to ranks brings another one.
func TestNothingAfterTheEnd(t *testing.T) {
	for _, p := range []Policy{Stop, Restart, Respawn, Shrink} {
		m := New(Config{Policy: p, Size: 3, MinSize: 3, MaxRestarts: 1})
		first := m.Lost(0, false)
		var later []Order
		for r := range 3 {
			later = slices.Concat(later, m.Renewed(r), m.Lost(r, true), m.Closed(r), m.Expired())
		}
		if len(first) != 1 || len(later) > 0 {
			t.Errorf("policy %d: orders %v, then %v", p, first, later)
		}
		if n := reflect.TypeOf(first[0]).Name(); n != map[Policy]string{Restart: "RestartAll"}[p] && n != "End" {
			t.Errorf("policy %d: %v", p, first)
		}
	}
}
