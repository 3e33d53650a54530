package plan

import (
	"math/bits"
	"testing"
)

// spread puts n ranks on hosts in turn.
func spread(n, hosts int) [][]int {
	list := make([][]int, hosts)
	for r := range n {
		list[r%hosts] = append(list[r%hosts], r)
	}
	return list
}

// Every exchange of leaders is right, for ranks on any number of hosts, and as short as documented, in messages that a
// leader receives over the network one after the other.
func TestLeaders(t *testing.T) {
	for n := 1; n <= 18; n++ {
		for hosts := 1; hosts <= n; hosts++ {
			for _, kind := range []Kind{AllReduce, Barrier} {
				for _, x := range []Exchange{Everybody, Doubling} {
					p, err := Leaders(kind, spread(n, hosts), x)
					if err != nil {
						t.Fatal(err)
					}
					if err := Verify(p, 1+n%3); err != nil {
						t.Fatalf("%d ranks on %d hosts: %v\n%v", n, hosts, err, p)
					}
					most := 0
					for _, track := range p.Lanes[0].Tracks {
						got := 0
						for _, s := range track.Steps {
							if s.Op.Receives() && int(s.From)%hosts != track.Rank%hosts {
								got++
							}
						}
						most = max(most, got)
					}
					want := hosts - 1
					if x == Doubling {
						want = bits.Len(uint(hosts)) - 1
						if hosts&(hosts-1) != 0 {
							want++
						}
					}
					if most != want {
						t.Errorf("%d ranks on %d hosts, exchange %d: %d messages from other hosts, want %d", n, hosts, x, most, want)
					}
				}
			}
		}
	}
}

// The name of an exchange of leaders says how they exchange, and that each rank is one.
func TestLeadersNames(t *testing.T) {
	for _, c := range []struct {
		hosts [][]int
		x     Exchange
		want  string
	}{
		{spread(4, 2), Everybody, "leaders(2)"}, {spread(4, 2), Doubling, "leaders(2) doubling"},
		{spread(4, 4), Everybody, "flat"}, {spread(4, 4), Doubling, "leaders(4) doubling"},
	} {
		if p, err := Leaders(AllReduce, c.hosts, c.x); err != nil || p.Name != c.want {
			t.Errorf("%d hosts, exchange %d: %v, %v, want %q", len(c.hosts), c.x, p, err, c.want)
		}
	}
}

// Leaders refuses invalid arguments.
func TestLeadersRefuse(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		hosts [][]int
	}{{Broadcast, spread(4, 2)}, {AllReduce, [][]int{{0}, {}}}, {AllReduce, [][]int{{0}, {0}}},
		{AllReduce, [][]int{{0}, {2}}}, {AllReduce, nil}} {
		if p, err := Leaders(c.kind, c.hosts, Everybody); err == nil {
			t.Errorf("%v over %v: %v", c.kind, c.hosts, p)
		}
	}
}
