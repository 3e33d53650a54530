package main

import (
	"slices"
	"strconv"

	"github.com/treerun/treerun/collective"
)

const (
	passes = 5
	most   = 1 << 17 // elements of a rank's part: 1 MiB
	burst  = 4       // calls that are started at once
)

// calls measures every collective and every kind of message, back to back, from 8 B to 1 MiB. scripts/calls.sh runs it
// in turns with its MPI twin, scripts/mpi_calls.c.
//
// Rank 0 prints a line of JSON for each call and size: the bytes of a rank's part, and the least mean of five passes,
// each of SECONDS/5 or more between two barriers. With names it measures only the calls of these names.
func calls(args []string) {
	seconds := must(strconv.ParseFloat(args[0], 64))
	run(func(c *collective.Comm) {
		room := most * max(c.Size(), burst)
		b := &bench{Comm: c, seconds: seconds / passes, names: args[1:],
			send: make([]float64, room), recv: make([]float64, room)}
		b.row("barrier", 0, func() { check(collective.Barrier(ctx, c)) })
		for _, count := range []int{1, 128, 4096, most} {
			b.collectives(count)
			b.messages(count)
		}
		b.row("window", 8, b.window)
		b.row("probe", 8, b.probe)
		b.row("split", 0, func() {
			d := must(c.Split(ctx, c.Rank()%2, c.Rank()))
			check(collective.Barrier(ctx, d))
			check(d.Close())
		})
		b.row("dup", 0, func() { check(must(c.Dup(ctx)).Close()) })
	})
}

type bench struct {
	*collective.Comm
	seconds    float64  // least time of a pass
	names      []string // of the calls that are measured; none: all
	send, recv []float64
}

// row measures a call.
func (b *bench) row(name string, bytes int, call func()) {
	if len(b.names) > 0 && !slices.Contains(b.names, name) {
		return
	}
	us := least(b.Comm, passes, b.seconds, call)
	show(b.Comm, `{"collective":%q,"bytes":%d,"time_us":%.3f}`, name, bytes, us)
}

// collectives measures those with the given number of elements of each rank.
func (b *bench) collectives(count int) {
	c, n := b.Comm, b.Size()
	x, y, xs, ys := b.send[:count], b.recv[:count], b.send[:count*n], b.recv[:count*n]
	from, into := xs, ys
	if c.Rank() != 0 {
		from, into = nil, nil
	}
	counts := slices.Repeat([]int{count}, n)
	type four [4]float64
	f, g := make([]four, max(1, count/4)), make([]four, max(1, count/4))
	add := func(into, from []four) {
		for i := range from {
			for k, v := range from[i] {
				into[i][k] += v
			}
		}
	}
	bytes := 8 * count
	b.row("allreduce", bytes, func() { check(collective.AllReduce(ctx, c, x, y, collective.Sum)) })
	b.row("allreducefunc", 32*len(f), func() { check(collective.AllReduceFunc(ctx, c, f, g, add)) })
	b.row("reduce", bytes, func() { check(collective.Reduce(ctx, c, x, y, collective.Sum, 0)) })
	b.row("broadcast", bytes, func() { check(collective.Broadcast(ctx, c, x, x, 0)) })
	b.row("allgather", bytes, func() { check(collective.AllGather(ctx, c, x, ys)) })
	b.row("allgatherv", bytes, func() { check(collective.AllGatherV(ctx, c, x, ys, counts)) })
	b.row("reducescatter", bytes, func() { check(collective.ReduceScatter(ctx, c, xs, y, collective.Sum)) })
	b.row("gather", bytes, func() { check(collective.Gather(ctx, c, x, into, 0)) })
	b.row("gatherv", bytes, func() { check(collective.GatherV(ctx, c, x, into, counts, 0)) })
	b.row("scatter", bytes, func() { check(collective.Scatter(ctx, c, from, y, 0)) })
	b.row("alltoall", bytes, func() { check(collective.AllToAll(ctx, c, xs, ys)) })
	b.row("alltoallv", bytes, func() { check(collective.AllToAllV(ctx, c, xs, counts, ys, counts)) })
	b.row("scan", bytes, func() { check(collective.Scan(ctx, c, x, y, collective.Sum)) })
	b.row("exscan", bytes, func() { check(collective.ExScan(ctx, c, x, y, collective.Sum)) })
	b.row("started-allreduce", bytes, func() {
		var all [burst]collective.Request
		for k := range all {
			all[k] = must(collective.StartAllReduce(c, x, b.recv[k*count:(k+1)*count], collective.Sum))
		}
		for k := range all {
			check(all[k].Wait(ctx))
		}
	})
}

// messages measures those of the given number of elements: to and fro between two ranks, and around a ring of all.
func (b *bench) messages(count int) {
	c, me, n := b.Comm, b.Rank(), b.Size()
	x, y, bytes, next, previous := b.send[:count], b.recv[:count], 8*count, (me+1)%n, (me+n-1)%n
	b.row("pingpong", bytes, func() {
		if me == 0 {
			check(collective.Send(ctx, c, x, 1, 0))
		}
		if me < 2 {
			must(collective.Recv(ctx, c, y, 1-me, 0))
		}
		if me == 1 {
			check(collective.Send(ctx, c, x, 0, 0))
		}
	})
	b.row("sendrecv", bytes, func() { must(collective.SendRecv(ctx, c, x, next, y, previous, 0)) })
	b.row("started-sendrecv", bytes, func() {
		in, out := must(collective.StartRecv(c, y, previous, 0)), must(collective.StartSend(c, x, next, 0))
		check(in.Wait(ctx))
		check(out.Wait(ctx))
	})
}

// window starts 64 messages from rank 1 to rank 0, which answers when all have arrived.
func (b *bench) window() {
	me := b.Rank()
	if me > 1 {
		return
	}
	var all [64]collective.Message
	for i := range all {
		if me == 1 {
			all[i] = must(collective.StartSend(b.Comm, b.send[:1], 0, 0))
		} else {
			all[i] = must(collective.StartRecv(b.Comm, b.recv[i:i+1], 1, 0))
		}
	}
	for i := range all {
		check(all[i].Wait(ctx))
	}
	if me == 0 {
		check(collective.Send(ctx, b.Comm, b.send[:1], 1, 1))
	} else {
		must(collective.Recv(ctx, b.Comm, b.recv[:1], 0, 1))
	}
}

// probe sends 100 messages from each other rank to rank 0, which looks for each from any rank, then receives it.
func (b *bench) probe() {
	if me := b.Rank(); me > 0 {
		for range 100 {
			check(collective.Send(ctx, b.Comm, b.send[:1], 0, me))
		}
		return
	}
	for range 100 * (b.Size() - 1) {
		s := must(collective.Probe(ctx, b.Comm, collective.AnySource, collective.AnyTag))
		must(collective.Recv(ctx, b.Comm, b.recv[:1], s.Source, s.Tag))
	}
}
