// Command renewals makes each communicator from the one before, which it then closes, and exits with 1 if memory,
// descriptors or the time of a renewal grow with their number: see scripts/faults/renewals.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

var (
	how   = flag.String("how", "dup", "dup, startdup, split or sub")
	count = flag.Int("count", 10000, "renewals")
	keep  = flag.Bool("keep", false, "close all communicators at the end, in place of each old one at once")
)

// state holds the values that must not grow.
type state struct {
	resident int // KiB
	fds      int
	name     int           // characters of the communicator's name
	each     time.Duration // 10th percentile of the latest renewals: the load of a busy machine is not counted
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("renewals: ")
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	c, err := collective.New(ctx, w)
	check(err)
	var open []*collective.Comm
	var took []time.Duration
	window := max(*count/20, 1)
	var early state
	for i := 1; i <= *count; i++ {
		begin := time.Now()
		next, err := renew(ctx, c)
		if err != nil {
			log.Fatalf("renewal %d: %v", i, err)
		}
		took = append(took, time.Since(begin))
		if *keep {
			open = append(open, c)
		} else {
			check(c.Close())
		}
		c = next
		if i == 2*window { // links and pools have reached their maximum size
			early = now(c, took[window:])
		}
	}
	check(collective.Barrier(ctx, c))
	late := now(c, took[len(took)-window:])
	if w.Rank() == 0 {
		fmt.Printf("%s of %d ranks, %d renewals: resident %d -> %d KiB, descriptors %d -> %d, name %d -> %d (%s), "+
			"one takes %v -> %v\n", *how, w.Size(), *count, early.resident, late.resident, early.fds, late.fds, early.name,
			late.name, c.Name(), early.each, late.each)
	}
	for _, c := range append(open, c) {
		check(c.Close())
	}
	check(w.Close())
	if !*keep && (late.resident > early.resident+8<<10+early.resident/4 || late.fds > early.fds+4 || late.name > 64 ||
		late.each > 5*early.each) {
		log.Fatalf("rank %d: something has grown: %+v, then %+v", w.Rank(), early, late)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func renew(ctx context.Context, c *collective.Comm) (*collective.Comm, error) {
	switch *how {
	case "split":
		return c.Split(ctx, 3, -c.Rank())
	case "sub":
		var all []int
		for r := range c.Size() {
			all = append(all, c.Size()-1-r)
		}
		return c.Sub(ctx, all)
	}
	if *how == "startdup" {
		d, err := c.StartDup()
		if err != nil {
			return nil, err
		}
		return d.Wait(ctx)
	}
	return c.Dup(ctx)
}

func now(c *collective.Comm, took []time.Duration) state {
	runtime.GC()
	s := state{name: len([]rune(c.Name()))}
	took = slices.Sorted(slices.Values(took))
	s.each = took[len(took)/10]
	fds, _ := os.ReadDir("/proc/self/fd")
	s.fds = len(fds)
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			s.resident, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return s
}
