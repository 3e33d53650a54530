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
		check(calls(ctx, c, round))
		time.Sleep(20 * time.Millisecond)
	}
	d, err := c.Dup(ctx)
	check(err)
	check(calls(ctx, d, 3))
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
func calls(ctx context.Context, c *collective.Comm, round int) error {
	me, n := c.Rank(), c.Size()
	for _, count := range []int{2, 100_000, 1 << 20} {
		x := make([]float32, count)
		fill := func(v int) {
			for i := range x {
				x[i] = float32(v*(round+1) + i%7)
			}
		}
		compare := func(call string, want func(i int) float32) error {
			for i, v := range x {
				if v != want(i) {
					return fmt.Errorf("%s of %d: element %d is %v, want %v", call, count, i, v, want(i))
				}
			}
			return nil
		}
		of := func(v int) func(int) float32 {
			return func(i int) float32 { return float32(v*(round+1) + i%7) }
		}
		fill(me)
		if err := collective.AllReduce(ctx, c, x, x, collective.Sum); err != nil {
			return err
		}
		sum := func(i int) float32 { return float32(n*(n-1)/2*(round+1) + n*(i%7)) }
		if err := compare("AllReduce", sum); err != nil {
			return err
		}
		root := round % n
		fill(me + 100)
		if err := collective.Broadcast(ctx, c, x, x, root); err != nil {
			return err
		}
		if err := compare("Broadcast", of(root+100)); err != nil {
			return err
		}
		fill(me + 200)
		pieces := [][]float32{x[:count/3], x[count/3:]}
		if err := collective.BroadcastCoalesced(ctx, c, pieces, pieces, root); err != nil {
			return err
		}
		if err := compare("BroadcastCoalesced", of(root+200)); err != nil {
			return err
		}
		if err := exchange(ctx, c, x, fill, func(call string, v int) error { return compare(call, of(v)) }); err != nil {
			return err
		}
	}
	return collective.Barrier(ctx, c)
}

// exchange sends x to the next rank, and parts of it to all.
func exchange(ctx context.Context, c *collective.Comm, x []float32, fill func(int), compare func(string, int) error) error {
	me, n := c.Rank(), c.Size()
	from := (me + n - 1) % n
	out := make([]float32, len(x))
	fill(me + 10)
	copy(out, x)
	sent, err := collective.StartSend(c, out, (me+1)%n, 5)
	if err != nil {
		return err
	}
	if _, err := collective.Recv(ctx, c, x, from, 5); err != nil {
		return err
	}
	if err := sent.Wait(ctx); err != nil {
		return err
	}
	if err := compare("Recv", from+10); err != nil {
		return err
	}
	part := len(x) / n
	in := make([]float32, part*n)
	fill(me + 20)
	if err := collective.AllToAll(ctx, c, x[:part*n], in); err != nil {
		return err
	}
	for r := range n {
		fill(r + 20)
		for i, v := range x[me*part : (me+1)*part] {
			if in[r*part+i] != v {
				return fmt.Errorf("AllToAll of %d: element %d of rank %d is %v, want %v", part*n, i, r, in[r*part+i], v)
			}
		}
	}
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
