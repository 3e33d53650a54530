package network

import "fmt"

// Effort is the allowed cost of a measurement: a word of the command line.
type Effort string

// The efforts.
const (
	Quick Effort = "quick" // under a second for four hosts
	Full  Effort = "full"  // more often, and longer
	Off   Effort = "off"   // nothing is sent
)

// ParseEffort checks that s is an effort.
func ParseEffort(s string) (Effort, error) {
	if e := Effort(s); e == Quick || e == Full || e == Off {
		return e, nil
	}
	return "", fmt.Errorf("%q: want quick, full or off", s)
}

// Turn is a part of a measurement. A host is in at most one pair or star of it.
type Turn struct {
	Number int
	Trips  bool     // small messages to and fro, not flows
	Flows  [][2]int // source and destination
}

// The most rounds of pairs, and the most peers of a star: for many hosts the
// time does not grow with their number.
const (
	quickRounds = 17
	fewRounds   = 7 // of up to 8 hosts
	fullRounds  = 64
	quickPasses = 2
	fullPasses  = 3
	maxPeers    = 8
)

// Turns lists the turns of the given number of hosts at that effort, in order: for each round of a tournament the trips
// of its pairs and their flows, there and back; then flows from every host to several, and to every host from several.
// Few hosts do all of it several times, so that a disturbance of a flow for a moment counts once only.
func Turns(hosts int, e Effort) []Turn {
	few, most, passes := fewRounds, quickRounds, quickPasses
	switch {
	case hosts < 2 || e == Off:
		return nil
	case e == Full:
		few, most, passes = quickRounds, fullRounds, fullPasses
	}
	if len(Rounds(hosts)) > few {
		passes = 1
	}
	return passesOf(hosts, most, passes)
}

// Once lists the turns of a Quick measurement that does nothing several times.
func Once(hosts int) []Turn { return passesOf(hosts, quickRounds, 1) }

// passesOf lists the turns of several passes, each of at most so many rounds of pairs.
func passesOf(hosts, most, passes int) (turns []Turn) {
	rounds := Rounds(hosts)
	rounds = rounds[:min(len(rounds), most)]
	add := func(trips bool, flows [][2]int) {
		turns = append(turns, Turn{Number: len(turns), Trips: trips, Flows: flows})
	}
	for range passes {
		for _, pairs := range rounds {
			add(true, pairs)
			add(false, pairs)
			add(true, turned(pairs))
			add(false, turned(pairs))
		}
		for _, flows := range stars(hosts) {
			add(false, flows)
			add(false, turned(flows))
		}
	}
	return turns
}

// Sample lists turns of single pairs, which nothing disturbs, such that every host is in one. They are enough where all
// hosts may be equal.
func Sample(hosts int) (turns []Turn) {
	if hosts < 3 {
		return nil
	}
	for h := 0; h < hosts; h += 2 {
		a := min(h, hosts-2) // of an odd number one host is in two
		for _, t := range []Turn{{Trips: true, Flows: [][2]int{{a, a + 1}}}, {Flows: [][2]int{{a, a + 1}}},
			{Flows: [][2]int{{a + 1, a}}}} {
			t.Number = len(turns)
			turns = append(turns, t)
		}
	}
	return turns
}

// turned lets flows go the other way.
func turned(flows [][2]int) [][2]int {
	back := make([][2]int, len(flows))
	for i, f := range flows {
		back[i] = [2]int{f[1], f[0]}
	}
	return back
}

// stars returns, turn by turn, flows from some hosts to several others each:
// hosts are dealt to groups, and in every turn one of each group sends to the
// rest of it.
func stars(hosts int) [][][2]int {
	if hosts < 3 {
		return nil
	}
	groups := (hosts + maxPeers) / (maxPeers + 1)
	var turns [][][2]int
	for center := 0; ; center++ {
		var flows [][2]int
		for g := range groups {
			first, end := g*hosts/groups, (g+1)*hosts/groups
			from := first + center
			for to := first; to < end && from < end; to++ {
				if to != from {
					flows = append(flows, [2]int{from, to})
				}
			}
		}
		if len(flows) == 0 {
			return turns
		}
		turns = append(turns, flows)
	}
}

// Rounds deals all pairs of n to rounds in which none stands twice, by the
// circle method of round-robin tournaments.
func Rounds(n int) [][][2]int {
	even := n + n%2 // an odd one out has no partner
	var rounds [][][2]int
	for round := range even - 1 {
		var pairs [][2]int
		for i := range even / 2 {
			a, b := (round+i)%(even-1), (round+even-1-i)%(even-1)
			if i == 0 {
				b = even - 1
			}
			if a < n && b < n {
				pairs = append(pairs, [2]int{min(a, b), max(a, b)})
			}
		}
		rounds = append(rounds, pairs)
	}
	return rounds
}

// Meets returns a function that reports whether two hosts need a connection for turns or for the barriers between them:
// it is symmetric.
func Meets(turns []Turn) func(a, b int) bool {
	meet := make(map[[2]int]bool)
	for _, t := range turns {
		for _, f := range t.Flows {
			meet[[2]int{min(f[0], f[1]), max(f[0], f[1])}] = true
		}
	}
	return func(a, b int) bool {
		a, b = min(a, b), max(a, b)
		return a != b && (a == Above(b) || meet[[2]int{a, b}])
	}
}

// Above returns the host above another one in the binary tree of the barriers, -1 for host 0.
func Above(host int) int { return (host+1)/2 - 1 }
