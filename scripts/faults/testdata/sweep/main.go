// Command sweep is a rank that makes calls of every kind, compares their results, and prints "rank N is right" after
// Close. It is for scripts/faults, and for tests of the command.
//
//	sweep [-after setuid|nodump|setpgid] [-who RANK]
//
// -after selects the action of all ranks, or of the one that -who names, once the communicator is made: setuid changes
// their user, after which others may not read their memory; nodump forbids only that; setpgid leaves their process
// group and sleeps for a minute.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

const (
	nobody      = 65534
	setDumpable = 4 // PR_SET_DUMPABLE
)

func main() {
	after := flag.String("after", "", "action of ranks after New")
	who := flag.Int("who", -1, "which rank does it; -1: all")
	flag.Parse()
	log.SetFlags(0)
	if *after == "nodump" { // root reads all memory
		check(syscall.Setuid(nobody))
		check(dumpable(1))
	}
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	log.SetPrefix(fmt.Sprintf("rank %d: ", w.Rank()))
	c, err := collective.New(ctx, w)
	check(err)
	if *who < 0 || *who == w.Rank() {
		check(change(*after))
	}
	for round := range 3 {
		calls(ctx, c, round)
		time.Sleep(20 * time.Millisecond)
	}
	d, err := c.Dup(ctx)
	check(err)
	calls(ctx, d, 3)
	check(d.Close())
	check(c.Close())
	check(w.Close())
	_, err = fmt.Printf("rank %d is right\n", w.Rank())
	check(err)
}

func change(what string) error {
	switch what {
	case "":
		return nil
	case "setuid":
		return syscall.Setuid(nobody)
	case "nodump":
		return dumpable(0)
	case "setpgid":
		group, err := syscall.Getpgid(os.Getppid())
		if err != nil {
			return err
		}
		err = syscall.Setpgid(0, group)
		time.Sleep(time.Minute)
		return err
	}
	return fmt.Errorf("-after %s is not known", what)
}

func dumpable(value uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setDumpable, value, 0); errno != 0 {
		return errno
	}
	return nil
}

// calls makes one call of each kind, of 8 bytes, 400 KB and 4 MiB.
func calls(ctx context.Context, c *collective.Comm, round int) {
	me, n := c.Rank(), c.Size()
	for _, count := range []int{2, 100_000, 1 << 20} {
		x := make([]float32, count)
		value := func(v, i int) float32 { return float32(v*(round+1) + i%7) }
		fill := func(v int) {
			for i := range x {
				x[i] = value(v, i)
			}
		}
		compare := func(call string, v int) {
			for i := range x {
				compareElement(call, count, i, x[i], value(v, i))
			}
		}
		fill(me)
		check(collective.AllReduce(ctx, c, x, x, collective.Sum))
		for i := range x {
			compareElement("AllReduce", count, i, x[i], float32(n*(n-1)/2*(round+1)+n*(i%7)))
		}
		root := round % n
		fill(me + 100)
		check(collective.Broadcast(ctx, c, x, x, root))
		compare("Broadcast", root+100)
		fill(me + 200)
		pieces := [][]float32{x[:count/3], x[count/3:]}
		check(collective.BroadcastCoalesced(ctx, c, pieces, pieces, root))
		compare("BroadcastCoalesced", root+200)
		exchange(ctx, c, x, fill, compare)
	}
	check(collective.Barrier(ctx, c))
}

// exchange sends x to the next rank, and parts of it to all.
func exchange(ctx context.Context, c *collective.Comm, x []float32, fill func(int), compare func(string, int)) {
	me, n := c.Rank(), c.Size()
	from := (me + n - 1) % n
	fill(me + 10)
	sent, err := collective.StartSend(c, slices.Clone(x), (me+1)%n, 5)
	check(err)
	_, err = collective.Recv(ctx, c, x, from, 5)
	check(err)
	check(sent.Wait(ctx))
	compare("Recv", from+10)
	part := len(x) / n
	in := make([]float32, part*n)
	fill(me + 20)
	check(collective.AllToAll(ctx, c, x[:part*n], in))
	for r := range n {
		fill(r + 20)
		for i, want := range x[me*part : (me+1)*part] {
			compareElement(fmt.Sprintf("AllToAll from rank %d", r), part*n, i, in[r*part+i], want)
		}
	}
}

// compareElement ends this rank where an element of a result is wrong.
func compareElement(call string, count, i int, got, want float32) {
	if got != want {
		log.Fatalf("%s of %d: element %d is %v, want %v", call, count, i, got, want)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
