//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// group is a communicator of a test, with a stream, memory and the contents expected of it.
type group struct {
	*Comm
	name  string
	s     *cuda.Stream
	x     cuda.Slice[int32]
	want  int32
	close func() error // of stream and memory
}

// newGroup opens the devices of c, and sets every element to the number of ranks.
func newGroup(ctx context.Context, name string, c *Comm, dev *cuda.Device, n int) (*group, error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	x, err := cuda.Alloc[int32](dev, n)
	if err != nil {
		return nil, err
	}
	g := &group{Comm: c, name: name, s: s, x: x, want: 1}
	g.close = func() error { return errors.Join(x.Free(), s.Close()) }
	return g, errors.Join(x.CopyFrom(ctx, s, slices.Repeat([]int32{1}, n)), BarrierDevice(ctx, c, s),
		c.SyncDevice(ctx, s))
}

// sums makes several calls, none of which makes this rank wait for another.
func (g *group) sums(ctx context.Context) error {
	for k := range 10 {
		g.want *= int32(g.Size())
		if err := AllReduceDevice(ctx, g.Comm, g.s, g.x, g.x, Sum); err != nil {
			return err
		}
		if k%4 == g.Rank() {
			if err := g.SyncDevice(ctx, g.s); err != nil {
				return err
			}
		}
	}
	return g.check(ctx)
}

// check compares the sums.
func (g *group) check(ctx context.Context) error {
	host := make([]int32, g.x.Len())
	if err := errors.Join(g.SyncDevice(ctx, g.s), g.x.CopyTo(ctx, g.s, host)); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	if i := slices.IndexFunc(host, func(v int32) bool { return v != g.want }); i >= 0 {
		return fmt.Errorf("%s: element %d is %d, want %d", g.name, i, host[i], g.want)
	}
	return nil
}

// Communicators made by Split, Sub and Dup make device calls concurrently with their parent's, each from a goroutine:
// of some ranks of a host, or of several hosts. They are closed before or after the parent.
func TestDeviceSubCommunicators(t *testing.T) {
	first, last := []string{"parent", "split", "sub", "dup"}, []string{"dup", "sub", "split", "parent"}
	for name, w := range map[string]struct {
		hosts, order []string
	}{
		"one host":             {[]string{"dgx1v/0-3"}, first},
		"two hosts":            {[]string{"dgx1v/0-1", "dgx1v/4-5"}, last},
		"one host, last first": {[]string{"dgx1v/0-3"}, last},
		"two hosts, the first": {[]string{"dgx1v/0-1", "dgx1v/4-5"}, first},
	} {
		if strings.Contains(name, ",") && !testutil.Thorough() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if asRanks(t, fakegpu.Job{Hosts: w.hosts, Ranks: 4 / len(w.hosts)}) {
				subCommunicators(t, w.order)
			}
		})
	}
}

// subCommunicators is a rank of TestDeviceSubCommunicators.
func subCommunicators(t *testing.T, order []string) {
	ctx, cancel := context.WithTimeout(t.Context(), patienceOnDevice)
	defer cancel()
	before := cuda.Stats()
	parent, err := New(ctx, member, WithTopoCache(""))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := gpuOf(member.Rank())
	if err != nil {
		t.Fatal(err)
	}
	me, all := member.Rank(), []*group{}
	open := func(name string, c *Comm, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		g, err := newGroup(ctx, name, c, dev, 5000)
		if err != nil {
			t.Fatal(name, err)
		}
		all = append(all, g)
	}
	open("parent", parent, nil)
	split, err := parent.Split(ctx, me%2, -me)
	open("split", split, err)
	if me%3 == 0 { // ranks 0 and 3
		sub, err := parent.Sub(ctx, []int{3, 0})
		open("sub", sub, err)
	}
	dup, err := parent.Dup(ctx)
	open("dup", dup, err)
	results := make(chan error, len(all))
	for _, g := range all {
		go func() { results <- g.sums(ctx) }()
	}
	for range all {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if err := Barrier(ctx, parent); err != nil { // no rank frees memory before all are done
		t.Fatal(err)
	}
	for _, g := range all {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}
	slices.SortFunc(all, func(a, b *group) int { return slices.Index(order, a.name) - slices.Index(order, b.name) })
	for _, g := range all {
		if err := g.Close(); err != nil {
			t.Errorf("close %s: %v", g.name, err)
		}
	}
	after := cuda.Stats()
	before.Contexts, after.Contexts = 0, 0 // they stay
	if after != before {
		t.Errorf("rank %d: left on the devices: %+v, before %+v", me, after, before)
	}
}
