package shm

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// machine returns the files of a machine with the given idle times of its cores, two threads of a processor each: 0 and
// 4, 1 and 5, and so on. Without siblings there are no files about threads.
func machine(siblings bool, idle ...int) fstest.MapFS {
	text, files := "cpu  9 9 9 999999 9 9 9 0 0 0\n", fstest.MapFS{}
	for core, ticks := range idle {
		text += fmt.Sprintf("cpu%d 70 1 20 %d 3 0 5 0 0 0\n", core, ticks-3)
		if siblings {
			files[cpu.Folder(core)+cpu.Siblings] =
				&fstest.MapFile{Data: fmt.Appendf(nil, "%d,%d\n", core%4, core%4+4)}
		}
	}
	files["proc/stat"] = &fstest.MapFile{Data: []byte(text + "intr 5 0 0\nctxt 77\nprocs_running 2\n")}
	return files
}

func stat(text string) fstest.MapFS { return fstest.MapFS{"proc/stat": {Data: []byte(text)}} }

func TestBestCores(t *testing.T) {
	for name, c := range map[string]struct {
		machine     fstest.MapFS
		free, taken []int
		want        string
	}{
		"most idle first": {machine(true, 50, 10, 40, 30, 0, 0, 0, 0), []int{1, 2, 3}, []int{0}, "[2 3 1]"},
		"no sibling of a taken thread": {machine(true, 50, 10, 40, 30, 90, 80, 20, 25), []int{2, 3, 4, 5, 6},
			[]int{0, 1}, "[2 3 6 4 5]"},
		"siblings where there is nothing else": {machine(true, 50, 10, 40, 30, 90, 80, 20, 25), []int{4, 5},
			[]int{0, 1}, "[4 5]"},
		"equal ones in their order":   {machine(true, 7, 7, 7, 7), []int{1, 2, 3}, []int{0}, "[1 2 3]"},
		"threads are not known":       {machine(false, 50, 10, 40, 30, 90), []int{2, 3, 4}, []int{0, -1}, "[4 2 3]"},
		"a core that is not there":    {machine(true, 50, 10, 40, 30), []int{1, 2}, []int{4000}, "[2 1]"},
		"no files":                    {nil, []int{1, 2}, []int{0}, "[1 2]"},
		"a file with something else":  {stat("cpu0 1\ncpu1"), []int{1, 0}, nil, "[1 0]"},
		"numbers that are not such":   {stat("cpu0 a b c d e\n"), []int{1, 0}, nil, "[1 0]"},
		"the taken core has no place": {machine(true, 50, 10), []int{1}, []int{0, 0, -1}, "[1]"},
	} {
		idle := idleTimes(c.machine)
		got := fmt.Sprint(bestCores(c.machine, c.free, c.taken, func(core int) uint64 { return idle[core] }))
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := idleTimes(machine(true, 50, 10)); len(got) != 2 || got[0] != 50 || got[1] != 10 {
		t.Errorf("idle times %v", got)
	}
}

// board makes the cores of some ranks; these run nowhere yet.
func board(ranks int) []*cores {
	words, all := make([]uint32, ranks), make([]*cores, ranks)
	for r := range all {
		all[r] = &cores{own: &words[r], lower: r, system: machine(false)}
		for q := range words {
			if q != r {
				all[r].others = append(all[r].others, &words[q])
			}
		}
	}
	return all
}

// tied calls f on a thread that has these cores only, and checks that it has them afterwards.
func tied(t *testing.T, to []int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := osys.PinThread(0, to)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	f()
	if got := osys.Cores(); !slices.Equal(got, to) {
		t.Errorf("tied to %v, the thread has %v in the end", to, got)
	}
}

// Of two ranks on one core each yields it, and the one that is bound does not move.
func TestBoundRanksShareTheirCore(t *testing.T) {
	core := osys.Cores()[0]
	all := board(3)
	all[2].publish(core + 1)
	tied(t, []int{core}, func() {
		if !all[1].apart() {
			t.Error("rank 1 yields on a core of its own")
		}
		for _, r := range []int{0, 1, 0, 1} {
			if all[r].apart() {
				t.Errorf("rank %d keeps the core of rank %d", r, 1-r)
			}
			if got := atomic.LoadUint32(all[r].own); int(got) != core+1 {
				t.Errorf("rank %d publishes %d on core %d", r, got, core)
			}
		}
	})
}

// someCores returns the cores of this process, of which the test needs two.
func someCores(t *testing.T) []int {
	all, missing := osys.Cores(), error(nil)
	if len(all) < 2 {
		missing = errors.New("ranks have no place to move to")
	}
	testutil.Need(t, testutil.Cores, missing)
	return all
}

// Two ranks begin on one core of several: the lower one stays, the higher one moves, once, and both keep all cores.
func TestRanksPart(t *testing.T) {
	begin := someCores(t)
	all := board(2)
	var wg sync.WaitGroup
	var parted atomic.Int32
	deadline := time.Now().Add(testutil.Limit)
	for r, c := range all {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := osys.MoveThread(begin[0]); err != nil {
				t.Error(err)
			}
			y := osys.Yielder{}
			for done := false; parted.Load() < 2 && time.Now().Before(deadline); {
				other := atomic.LoadUint32(c.others[0])
				if !c.apart() {
					y.Yield()
				} else if other != 0 && !done {
					done = true
					parted.Add(1)
				}
			}
			if got := osys.Cores(); !slices.Equal(got, begin) {
				t.Errorf("rank %d has the cores %v in the end, want %v", r, got, begin)
			}
		})
	}
	wg.Wait()
	if parted.Load() < 2 {
		t.Error("both ranks are on one core")
	}
}

// The higher of two ranks on one core moves to the core that no rank has, and publishes that; the lower one stays.
func TestHigherRankMoves(t *testing.T) {
	begin := someCores(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, ranks := range []int{2, len(begin)} {
		all, last := board(ranks), ranks-1
		for r := range last {
			all[r].publish(begin[r])
		}
		for turn := 0; ; turn++ {
			if err := osys.MoveThread(begin[0]); err != nil {
				t.Fatal(err)
			}
			c := all[last]
			c.next = time.Time{}
			if c.apart() { // the kernel has moved the thread meanwhile
				if turn > 1000 {
					t.Fatalf("the thread does not stay on core %d", begin[0])
				}
				continue
			}
			if now := int(*c.own) - 1; slices.Contains(begin[:last], now) || !slices.Contains(begin, now) {
				t.Errorf("the last of %d ranks moves to core %d of %v", ranks, now, begin)
			}
			break
		}
		if got := osys.Cores(); !slices.Equal(got, begin) {
			t.Errorf("the thread has the cores %v in the end, want %v", got, begin)
		}
	}
	lower := board(2)[0]
	*lower.others[0] = uint32(begin[0]) + 1
	tied(t, begin[:1], func() {
		lower.apart()
	})
	if got := int(*lower.own) - 1; got != begin[0] {
		t.Errorf("the lower rank has moved to core %d", got)
	}
}

// The words of the board are those of different ranks: each sees what the others publish.
func TestCoreWords(t *testing.T) {
	all := connectMembers(t, false)
	members := []int{1, 4}
	var of []*cores
	for _, r := range members {
		of = append(of, newCores(all[r].(*Endpoint).Endpoint, &transport.Layout{Size: 5, Members: members}, r))
	}
	of[0].publish(6)
	of[1].publish(8)
	var got []string
	for _, c := range of {
		got = append(got, fmt.Sprint(*c.own-1, *c.others[0]-1, c.lower))
	}
	if s := strings.Join(got, ", "); s != "6 8 0, 8 6 1" {
		t.Errorf("own core, core of the other, lower ranks: %s", s)
	}
}
