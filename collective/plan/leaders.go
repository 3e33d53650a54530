package plan

import (
	"fmt"
	"math/bits"
	"slices"
)

// Exchange is a way in which the leaders of hosts exchange their sums.
type Exchange uint8

// The exchanges. With either all hosts get the same bits, for an op that is
// commutative bit for bit.
const (
	// Everybody is all to all at once: the fewest times that a message is waited
	// for, one. Every leader adds in the order of the hosts: see VerifyStable.
	Everybody Exchange = iota
	// Doubling is with the host at distance 1, 2, 4, ...: ceil(log2 hosts) times, and
	// as many messages; two more where their number is no power of two.
	Doubling
)

// Leaders builds an AllReduce or a Barrier for small messages over several hosts: the first rank of every host, its
// leader, reduces the inputs of the host, the leaders exchange the sums, and every leader hands the result out. hosts
// has the ranks of every host, all ranks together. One track does it on each rank.
//
// With one rank on every host, see Alone, and Everybody it is the flat exchange: each sends its whole input to all
// others, to the ranks behind it in turn, and makes the result by itself. It is for messages so small that only the
// waiting counts. In place the sum overwrites the input once that is in it.
func Leaders(kind Kind, hosts [][]int, x Exchange) (*Plan, error) {
	n := len(slices.Concat(hosts...))
	p, err := newPlan(fmt.Sprintf("leaders(%d)", len(hosts)), kind, n, -1, Kind.bothWays)
	if err == nil {
		err = checkHosts(hosts, n)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case x == Doubling:
		p.Name += " doubling"
	case len(hosts) == n:
		p.Name = "flat"
	}
	return p.withLanes(1, nil, func(_, _ int) (tracks []Track) {
		var leaders []int
		for _, ranks := range hosts {
			leaders = append(leaders, ranks[0])
		}
		for h, ranks := range hosts {
			tracks = append(tracks, Track{ranks[0], leaderSteps(h, ranks[1:], leaders, x)})
			for _, r := range ranks[1:] {
				tracks = append(tracks, Track{r, []Step{sendStep(In, int32(ranks[0])), recvStep(Out, int32(ranks[0]))}})
			}
		}
		return tracks
	})
}

// Alone returns n hosts of one rank each.
func Alone(n int) [][]int {
	hosts := make([][]int, n)
	for r := range hosts {
		hosts[r] = []int{r}
	}
	return hosts
}

// leaderSteps returns the steps of the leader of host h, which has others with
// it.
func leaderSteps(h int, others, leaders []int, x Exchange) []Step {
	v := leaders[h]
	acc := Tmp
	if len(leaders) == 1 {
		acc = Out
	}
	steps, sum := addSteps(v, append([]int{v}, others...), In, acc)
	if x == Doubling && len(leaders) > 1 {
		steps = append(steps, doublingSteps(h, sum, leaders)...)
	} else {
		for d := 1; d < len(leaders); d++ {
			steps = append(steps, sendStep(sum, int32(leaders[(h+d)%len(leaders)])))
		}
		more, all := addSteps(v, leaders, sum, Out)
		steps = append(steps, inOut(more, all)...)
	}
	for _, r := range others {
		steps = append(steps, sendStep(Out, int32(r)))
	}
	return steps
}

// doublingSteps returns the steps in which leader h, with its value in mine, exchanges sums with the hosts at rising
// distances. Of hosts whose number is no power of two the last ones first give theirs to one that takes part, and get
// the result from it.
func doublingSteps(h int, mine Buf, leaders []int) []Step {
	n := len(leaders)
	rounds := bits.Len(uint(n)) - 1
	most := 1 << rounds // hosts that take part
	if h >= most {
		with := int32(leaders[h-most])
		return []Step{sendStep(mine, with), recvStep(Out, with)}
	}
	var steps []Step
	add := func(with int, dst Buf) {
		steps = append(steps, Step{Op: RecvReduce, Src: mine, Dst: dst, From: int32(leaders[with]), To: -1})
		mine = dst
	}
	extra := h + most
	if extra < n {
		add(extra, Tmp)
	}
	for k := range rounds {
		with := h ^ 1<<k
		steps = append(steps, sendStep(mine, int32(leaders[with])))
		dst := Tmp
		if k == rounds-1 {
			dst = Out
		}
		add(with, dst)
	}
	if extra < n {
		steps = append(steps, sendStep(Out, int32(leaders[extra])))
	}
	return steps
}
