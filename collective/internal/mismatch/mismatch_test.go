package mismatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// board has what the ranks of a test have published.
type board struct {
	calls  [][]call.Header // by rank, the oldest first
	closed []bool          // by rank
	fault  *transport.Fault
}

// endpoint is one rank's end of a board, with the methods that Calls uses.
type endpoint struct {
	transport.Endpoint
	*board
	rank int
}

func (e *endpoint) Enter(h *call.Header) { e.calls[e.rank] = append(e.calls[e.rank], *h) }
func (e *endpoint) FlushStatus()         {}

func (e *endpoint) Status(r int) transport.Status {
	h, _ := e.CallBefore(r, 0)
	return transport.Status{Call: h, Closed: e.closed[r]}
}

func (e *endpoint) CallBefore(r, back int) (h call.Header, ok bool) {
	if i := len(e.calls[r]) - 1 - back; i >= 0 && back <= transport.History {
		return e.calls[r][i], true
	}
	return h, false
}

func (e *endpoint) Abort(f transport.Fault) {
	if e.fault == nil {
		e.fault = &f
	}
}

func (e *endpoint) Aborted() (f transport.Fault, failed bool) {
	if e.fault != nil {
		f = *e.fault
	}
	return f, e.fault != nil
}

// newRanks returns the Calls of all ranks of a new board.
func newRanks(size int) (*board, []*Calls) {
	b := &board{calls: make([][]call.Header, size), closed: make([]bool, size)}
	ranks := make([]*Calls, size)
	for r := range ranks {
		ranks[r] = New(&endpoint{board: b, rank: r}, r, size)
	}
	return b, ranks
}

// enter makes id the next call of a rank, with its number, and returns it.
func enter(c *Calls, id call.ID) call.ID {
	id.Seq = c.ep.Status(c.rank).Call.Seq + 1
	c.Enter(&id, new(call.Header), 0, nil)
	return id
}

// link is a Receiver with the header of one chunk, or an error.
type link struct {
	transport.Receiver
	chunk call.Header
	err   error
}

func (l *link) TryPeek(h *call.Header) ([]byte, bool, error) {
	*h = l.chunk
	return nil, l.err == nil && l.chunk != call.Header{}, l.err
}

// sum is the usual call of a test.
var sum = call.ID{Kind: call.AllReduce, Op: kernel.Sum, DType: kernel.Float32, Count: 64, Root: -1}

// with returns sum after a change.
func with(change func(id *call.ID)) call.ID {
	id := sum
	change(&id)
	return id
}

// others are calls that differ from sum, one field each.
var others = []call.ID{
	with(func(id *call.ID) { id.Kind = call.Barrier }),
	with(func(id *call.ID) { id.Op = kernel.Max }),
	with(func(id *call.ID) { id.DType = kernel.Int32 }),
	with(func(id *call.ID) { id.Count = 65 }),
	with(func(id *call.ID) { id.Root = 1 }),
	with(func(id *call.ID) { id.Scaled = true }),
	with(func(id *call.ID) { id.Varied = true }),
	with(func(id *call.ID) { id.Device = true }),
	with(func(id *call.ID) { id.Kind, id.Op = call.Split, 0 }),
	with(func(id *call.ID) { id.Kind, id.Op = call.Exchange, 0 }),
}

// mustFail fails the test unless err is a mismatch with this rank at fault and this text.
func mustFail(t *testing.T, err error, rank int, format string, args ...any) {
	t.Helper()
	f, _ := err.(transport.Fault)
	if want := fmt.Sprintf(format, args...); f.Kind != transport.FaultMismatch || f.Rank != rank || f.Text != want {
		t.Errorf("got %+v, want rank %d, %q", err, rank, want)
	}
}

// TestBothCallsAreNamed lets two ranks make calls that differ, after three that do not, and lets each rank find that in
// every way: by the published calls, by the header of a chunk, and by a chunk that no step expects.
func TestBothCallsAreNamed(t *testing.T) {
	for _, other := range others {
		ways := map[string]func(c *Calls, mine, theirs call.ID) error{
			"Compare": func(c *Calls, mine, _ call.ID) error { return c.Compare(mine) },
			"Differ":  func(c *Calls, mine, theirs call.ID) error { return c.Differ(1-c.rank, theirs, mine) },
			"Check": func(c *Calls, _, _ call.ID) error {
				c.Check()
				f, _ := c.ep.Aborted()
				return f
			},
			"CheckCall": func(c *Calls, mine, _ call.ID) error {
				c.CheckCall(mine)
				f, _ := c.ep.Aborted()
				return f
			},
			"chunk": func(c *Calls, mine, theirs call.ID) error {
				c.Links = []Link{{Src: 1 - c.rank, Receiver: &link{chunk: theirs.Header()}}}
				return c.strayChunk(mine)
			},
		}
		for name, way := range ways {
			for r := range 2 {
				_, ranks := newRanks(2)
				for range 3 {
					enter(ranks[0], sum)
					enter(ranks[1], sum)
				}
				mine, theirs := enter(ranks[r], sum), enter(ranks[1-r], other)
				t.Run(fmt.Sprintf("%v by %s on rank %d", theirs, name, r), func(t *testing.T) {
					err := way(ranks[r], mine, theirs)
					mustFail(t, err, -1, "rank %d called %v while rank %d called %v", 1-r, theirs, r, mine)
				})
			}
		}
	}
}

// TestSame: ranks that make the same calls are not at fault, however far one is ahead, and wherever it has left.
func TestSame(t *testing.T) {
	for ahead := range 3 * call.Logged {
		b, ranks := newRanks(2)
		var mine call.ID
		for i := range ahead + 20 {
			if id := enter(ranks[1], sum); i < 20 {
				mine = enter(ranks[0], sum)
				ranks[0].Links = []Link{{Src: 1, Receiver: &link{chunk: id.Header()}}}
			}
		}
		b.closed[1] = true
		ranks[0].CheckCall(mine)
		ranks[1].Check()
		if err := ranks[0].Compare(mine); err != nil || b.fault != nil {
			t.Errorf("rank 1 is %d calls ahead: %v %v", ahead, err, b.fault)
		}
	}
}

// TestEarliest lets rank 1 make one other call, and then the same ones as rank 0, or more of them. Check names that
// call as long as both have it among their published ones. After that only the digest of all calls shows that they
// differ.
func TestEarliest(t *testing.T) {
	const calls = 2*transport.History + 2
	for odd := 1; odd <= calls; odd++ {
		for ahead := range transport.History + 3 {
			b, ranks := newRanks(2)
			for seq := 1; seq <= calls+ahead; seq++ {
				theirs := sum
				if seq == odd {
					theirs.Count++
				}
				enter(ranks[1], theirs)
				if seq <= calls {
					enter(ranks[0], sum)
				}
			}
			ranks[0].Check()
			text := fmt.Sprintf("rank 1 called AllReduce #%d (sum of 65 float32) while", odd)
			switch {
			case ahead > transport.History:
				text = ""
			case odd < calls+ahead-transport.History:
				text = "or have made different calls before it"
			}
			if found := b.fault != nil; found != (text != "") || found && !strings.Contains(b.fault.Text, text) {
				t.Errorf("call %d of %d differs, rank 1 is %d ahead: got %v, want %q", odd, calls, ahead, b.fault, text)
			}
		}
	}
}

// TestFaultTexts: some differences have a text of their own.
func TestFaultTexts(t *testing.T) {
	gather := call.ID{Kind: call.Gather, Varied: true, DType: kernel.Int8, Count: 4, Seq: 1, Root: 0}
	longer := gather
	longer.Count = 5
	second, varied, other := sum, sum, sum
	bucket, next := sum, sum
	bucket.Number, next.Number = call.FirstOfBuckets, call.FirstOfBuckets+1
	barrier := call.ID{Kind: call.Barrier, DType: kernel.Uint8, Op: kernel.Sum, Root: -1}
	second.Number, varied.Varied, other.Chain = 1, true, 9
	otherParts, otherChain := varied, varied
	otherParts.Parts, otherParts.Chain, otherChain.Chain = 7, 9, 9
	for _, c := range []struct {
		theirs, mine call.ID
		want         string
	}{
		{longer, gather, "rank 1 has a part of 5 elements in GatherV #1 (int8, root 0), the counts of rank 0 have 4 for it"},
		{second, sum, "rank 1 called AllReduce #0 (sum of 64 float32) as Init 2 of equal calls, while rank 0 called Init 1 " +
			"(a plain call is as Init 1): ranks make and start equal persistent calls in the same order"},
		{bucket, sum, "rank 1 called AllReduce #0 (sum of 64 float32, of Buckets) while rank 0 called AllReduce #0 (sum " +
			"of 64 float32): from the first Ready of a pass of Buckets to its Wait, ranks make no other call on the " +
			"communicator"},
		{bucket, barrier, "rank 1 called AllReduce #0 (sum of 64 float32, of Buckets) while rank 0 called Barrier #0: from " +
			"the first Ready of a pass of Buckets to its Wait, ranks make no other call on the communicator"},
		{next, bucket, "rank 1 called AllReduce #0 (sum of 64 float32, of Buckets), as bucket 2 of equal ones, while " +
			"rank 0 called bucket 1: ranks make several Buckets, and their passes, in the same order"},
		{other, sum, "rank 1 and rank 0 run AllReduce #0 (sum of 64 float32) by different plans, or have made different " +
			"calls before it"},
		{otherChain, varied, "rank 1 and rank 0 run AllReduceV #0 (sum of 64 float32) by different plans, or have made " +
			"different calls before it"},
		{otherParts, varied, "rank 1 called AllReduceV #0 (sum of 64 float32) with different counts than rank 0"},
	} {
		_, ranks := newRanks(2)
		mustFail(t, ranks[0].Fault(1, c.theirs, c.mine), -1, "%s", c.want)
	}
	_, ranks := newRanks(2) // on the rank that is not the root
	mustFail(t, ranks[1].Fault(0, gather, longer), -1,
		"rank 1 has a part of 5 elements in GatherV #1 (int8, root 0), the counts of rank 0 have 4 for it")
}

// TestPlans: the digests of plans, and the lengths of parts, are part of the Chain, and those that only a root has not.
func TestPlans(t *testing.T) {
	gather := with(func(id *call.ID) { id.Kind, id.Op, id.Root, id.Varied, id.Seq = call.Gather, 0, 0, true, 1 })
	own := gather
	own.Count = 7
	sum := with(func(id *call.ID) { id.Seq = 1 })
	parts := with(func(id *call.ID) { id.Kind, id.Varied, id.Seq = call.ReduceScatter, true, 1 })
	for _, c := range []struct {
		name    string
		ids     [2]call.ID
		digests [2]uint64
		begins  [2][]int
		same    bool
	}{
		{"same", [2]call.ID{sum, sum}, [2]uint64{5, 5}, [2][]int{{0, 1, 2}, {0, 1, 2}}, true},
		{"plans", [2]call.ID{sum, sum}, [2]uint64{5, 6}, [2][]int{}, false},
		{"parts", [2]call.ID{parts, parts}, [2]uint64{5, 5}, [2][]int{{0, 1, 2}, {0, 2, 2}}, false},
		{"counts of a root", [2]call.ID{gather, own}, [2]uint64{5, 5}, [2][]int{{0, 64, 71}, {0, 0, 7}}, true},
	} {
		b, ranks := newRanks(2)
		for r, id := range c.ids {
			var h call.Header
			ranks[r].Enter(&id, &h, c.digests[r], c.begins[r])
			if h != id.Header() {
				t.Errorf("%s: rank %d has the header %+v of %+v", c.name, r, h, id)
			}
		}
		if got := b.calls[0][0].ID().Chain == b.calls[1][0].ID().Chain; got != c.same {
			t.Errorf("%s: same Chain %v, want %v", c.name, got, c.same)
		}
	}
}

// TestPermutedCounts: calls whose counts have equal totals in another order differ in their headers alone, whatever
// calls came before, and the error names the counts.
func TestPermutedCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(34, 1))
	beginsOf := func(counts []int) []int {
		begins := []int{0}
		for r, n := range counts {
			begins = append(begins, begins[r]+n)
		}
		return begins
	}
	for pair := range 50_000 {
		size, most := 2+random.IntN(15), 1<<random.IntN(30)
		counts := [2][]int{make([]int, size), nil}
		for r := range size {
			counts[0][r] = random.IntN(most + 1)
		}
		counts[1] = slices.Clone(counts[0])
		if random.IntN(2) == 0 { // two ranks are exchanged, or one element moves
			a, b := random.IntN(size), random.IntN(size)
			counts[1][a], counts[1][b] = counts[1][b], counts[1][a]
		} else if a, b := random.IntN(size), random.IntN(size); counts[1][a] > 0 {
			counts[1][a]--
			counts[1][b]++
		}
		if slices.Equal(counts[0], counts[1]) {
			continue
		}
		b, ranks := newRanks(2)
		var ids [2]call.ID
		for r := range ranks {
			begins := beginsOf(counts[r])
			ids[r] = call.ID{Kind: call.AllGather, DType: kernel.Float32, Root: -1, Varied: true, Seq: 1,
				Count: uint64(begins[size]), Number: uint16(pair % 3)}
			ranks[r].Enter(&ids[r], new(call.Header), 5, begins)
			if got := b.calls[r][0].ID(); got != ids[r] {
				t.Fatalf("the header of %+v is decoded as %+v", ids[r], got)
			}
		}
		if sameButChain(ids[0], ids[1]) {
			t.Fatalf("calls with the counts %v and %v do not differ", counts[0], counts[1])
		}
		mustFail(t, ranks[0].Compare(ids[0]), -1, "rank 1 called %v with different counts than rank 0", ids[1])
	}
}

// TestSuspect: the rank at fault is the one with whose call fewer ranks agree, and none where as many do. The text of
// the fault begins with it.
func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		odd  []int
		size int
		want int
	}{{[]int{1}, 2, -1}, {[]int{0}, 3, 0}, {[]int{2}, 3, 2}, {[]int{1, 3}, 4, -1}, {[]int{4}, 5, 4}} {
		b, ranks := newRanks(c.size)
		for r := range ranks {
			id := sum
			for _, odd := range c.odd {
				if r == odd {
					id.Count++
				}
			}
			enter(ranks[r], id)
		}
		for r := range ranks {
			b.fault = nil
			ranks[r].Check()
			if b.fault == nil || b.fault.Rank != c.want ||
				c.want >= 0 && !strings.HasPrefix(b.fault.Text, fmt.Sprintf("rank %d called ", c.want)) {
				t.Errorf("of %d ranks %v differ: rank %d found %v, want rank %d", c.size, c.odd, r, b.fault, c.want)
			}
		}
	}
}

// TestLeft: a rank that has closed before it entered a call is at fault for the wait in it.
func TestLeft(t *testing.T) {
	b, ranks := newRanks(2)
	mine := enter(ranks[0], sum)
	b.closed[1] = true
	want := transport.ClosedFault(1, 0, mine.String())
	if got := transport.CallFault(ranks[0].Compare(mine), 0, mine.String()); got != want {
		t.Errorf("Compare: %+v, want %+v", got, want)
	}
	if ranks[0].CheckCall(mine); b.fault == nil || *b.fault != want {
		t.Errorf("CheckCall: %+v, want %+v", b.fault, want)
	}
	ended := &link{err: transport.ErrPeerClosed}
	ranks[0].Links = []Link{{Src: 1, Receiver: ended}}
	if err := ranks[0].strayChunk(mine); err != nil {
		t.Errorf("the end of a link: %v", err)
	}
	ended.err = transport.ErrCorrupt
	if err := ranks[0].strayChunk(mine); err == nil {
		t.Error("a broken link is no error")
	}
}

// TestStrayAfterWrap: a chunk of a call that is too long ago for the log is compared with the latest one, and one of a
// later call is no fault.
func TestStrayAfterWrap(t *testing.T) {
	_, ranks := newRanks(2)
	var latest call.ID
	for range 2*call.Logged + 3 {
		latest = enter(ranks[0], sum)
	}
	at := &link{}
	ranks[0].Links = []Link{{Src: 1, Receiver: at}}
	for _, c := range []struct {
		seq  uint64
		mine uint64 // 0: no fault
	}{
		{1, latest.Seq}, {latest.Seq - call.Logged, latest.Seq}, {latest.Seq - call.Logged + 1, latest.Seq - call.Logged + 1},
		{latest.Seq, latest.Seq}, {latest.Seq + 1, 0},
	} {
		theirs := with(func(id *call.ID) { id.Seq, id.Count = c.seq, 1 })
		at.chunk = theirs.Header()
		err := ranks[0].strayChunk(latest)
		if c.mine == 0 {
			if err != nil {
				t.Errorf("a chunk of call %d of %d: %v", c.seq, latest.Seq, err)
			}
			continue
		}
		mine := with(func(id *call.ID) { id.Seq = c.mine })
		mustFail(t, err, -1, "rank 1 called %v while rank 0 called %v", theirs, mine)
	}
}

// TestSettle: a rank that closes waits for the others to enter its latest call, but not for long, and compares.
func TestSettle(t *testing.T) {
	const long = time.Minute
	for _, c := range []struct {
		name   string
		within time.Duration
		rank1  []call.ID // its calls, where rank 0 has made one sum
		chunk  call.ID   // that comes from it
		want   string    // of the fault
	}{
		{"the same calls", long, []call.ID{sum}, call.ID{}, ""},
		{"a rank that is behind", time.Millisecond, nil, call.ID{}, ""},
		{"another call", long, others[1:2], call.ID{}, "rank 1 called AllReduce #1 (max of 64 float32) while rank 0 called " +
			"AllReduce #1 (sum of 64 float32)"},
		{"one call more", long, []call.ID{sum, sum}, call.ID{},
			"rank 0 closed its communicator while rank 1 called AllReduce #2 (sum of 64 float32)"},
		{"a chunk of one call more", time.Millisecond, nil, with(func(id *call.ID) { id.Seq = 2 }),
			"rank 0 closed its communicator while rank 1 called AllReduce #2 (sum of 64 float32)"},
	} {
		_, ranks := newRanks(2)
		enter(ranks[0], sum)
		for _, id := range c.rank1 {
			enter(ranks[1], id)
		}
		if c.chunk.Seq > 0 {
			ranks[0].Links = []Link{{Src: 1, Receiver: &link{chunk: c.chunk.Header()}}}
		}
		if f, failed := ranks[0].Settle(c.within); f.Text != c.want || failed != (c.want != "") {
			t.Errorf("%s: %v %+v, want %q", c.name, failed, f, c.want)
		}
	}
}
