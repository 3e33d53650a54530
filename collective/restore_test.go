package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// point is an element of a state that is no Number.
type point struct {
	x, y float32
	id   [3]uint16
	set  bool
}

// model is a state of random slices of several types.
type model struct {
	weights []float32
	points  []point
	steps   []int64
	flags   []bool
	random  []byte
}

func newModel(rng *rand.Rand, most int) *model {
	n := func() int {
		if rng.IntN(4) == 0 {
			return rng.IntN(2)
		}
		return rng.IntN(most)
	}
	return &model{make([]float32, n()), make([]point, n()), make([]int64, n()), make([]bool, n()), make([]byte, n())}
}

func (m *model) state() []any { return []any{m.weights, m.points, m.steps, m.flags, m.random} }

// fill gives the model the contents of a version.
func (m *model) fill(version int) *model {
	for i := range m.weights {
		m.weights[i] = float32(version*31 + i)
	}
	for i := range m.points {
		m.points[i] = point{float32(i), float32(version), [3]uint16{uint16(i), 7, uint16(version)}, i%3 == 0}
	}
	for i := range m.steps {
		m.steps[i] = int64(version)<<40 + int64(i)
	}
	for i := range m.flags {
		m.flags[i] = (i+version)%3 == 0
	}
	for i := range m.random {
		m.random[i] = byte(i*7 + version)
	}
	return m
}

// holds reports whether m has the contents of a version.
func (m *model) holds(version int) bool {
	want := (&model{make([]float32, len(m.weights)), make([]point, len(m.points)), make([]int64, len(m.steps)),
		make([]bool, len(m.flags)), make([]byte, len(m.random))}).fill(version)
	return slices.Equal(m.weights, want.weights) && slices.Equal(m.points, want.points) &&
		slices.Equal(m.steps, want.steps) && slices.Equal(m.flags, want.flags) && slices.Equal(m.random, want.random)
}

// trial is a Restore of random versions on all ranks, and of random sizes.
type restoreTrial struct {
	versions     []int
	seed         uint64
	most, window int
}

// run makes the trial on a rank, and returns how the result differs from what a person would expect.
func (x *restoreTrial) run(t *testing.T, c *Comm) error {
	m := newModel(rand.New(rand.NewPCG(x.seed, 0)), x.most)
	mine, best := x.versions[c.Rank()], slices.Max(x.versions)
	m.fill(mine)
	got, err := restore(t.Context(), c, x.window, mine, m.state())
	switch {
	case best < 0 && errors.Is(err, ErrNoState) && m.holds(mine):
		return nil
	case best < 0:
		return fmt.Errorf("nobody has the state: %w", err)
	case err != nil:
		return err
	case got != best || !m.holds(best):
		return fmt.Errorf("rank %d restored version %d, want %d; its contents are right: %v", c.Rank(), got, best,
			m.holds(best))
	}
	return nil
}

// Whatever the versions, sizes and hosts, all ranks have the contents of the highest version, or nothing is changed.
func TestRestore(t *testing.T) {
	for _, hosts := range [][]int{testutil.OneHost(1), testutil.OneHost(2), testutil.OneHost(3), testutil.OneHost(6),
		{0, 1}, {0, 1, 0, 2, 1, 1}} {
		rng := rand.New(rand.NewPCG(uint64(len(hosts)), uint64(slices.Max(hosts))))
		var trials []*restoreTrial
		for i := range testutil.Count(30, 400) {
			x := &restoreTrial{make([]int, len(hosts)), rng.Uint64(), 1 + rng.IntN(5000), 1 + rng.IntN(20000)}
			for r := range x.versions {
				x.versions[r] = rng.IntN(2+i%4) - 1
			}
			trials = append(trials, x)
		}
		errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
			all := c.in.Plans.Messages
			for i, x := range trials {
				if i%5 == 4 { // as with more than 128 ranks
					c.in.Plans.Messages = -1
				}
				if err := x.run(t, c); err != nil {
					return fmt.Errorf("trial %d, %+v: %w", i, *x, err)
				}
				c.in.Plans.Messages = all
			}
			return sumOn(t.Context(), c)
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}

// States that differ between ranks are an error on all of them, which names the ranks, the slice and the lengths. The
// communicator stays usable, and nothing is changed.
func TestRestoreOfDifferentStates(t *testing.T) {
	a, b := make([]float32, 4), make([]float32, 5)
	for _, x := range []struct {
		states [3][]any
		want   string
	}{
		{[3][]any{{a, a}, {a, a}, {a, b}},
			"the ranks do not agree on slice 1: 4 float32 of 4 bytes on ranks 0,1; 5 float32 of 4 bytes on rank 2"},
		{[3][]any{{a}, {make([]int32, 4)}, {a}}, "slice 0: 4 float32 of 4 bytes on ranks 0,2; 4 int32 of 4 bytes on rank 1"},
		{[3][]any{{a, b}, {a}, {}}, "the number of slices: 2 on rank 0; 1 on rank 1; 0 on rank 2"},
	} {
		mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
			version, err := Restore(t.Context(), c, 5+c.Rank(), x.states[c.Rank()]...)
			if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), x.want) || version != 5+c.Rank() ||
				strings.Count(err.Error(), "Restore") != 1 ||
				!strings.HasPrefix(err.Error(), fmt.Sprintf("collective: Restore on rank %d: ", c.Rank())) {
				t.Errorf("rank %d: version %d, %v, want %s", c.Rank(), version, err, x.want)
			}
			return sumOn(t.Context(), c)
		})
	}
}

// Arguments that cannot be are refused before anything is sent.
func TestRestoreRefuses(t *testing.T) {
	mustRun(t, 1, func(_ *fakeWorld, c *Comm) error {
		of := func(version int, state ...any) func() (int, error) {
			return func() (int, error) { return Restore(t.Context(), c, version, state...) }
		}
		for want, call := range map[string]func() (int, error){
			"argument 1 of the state is a string, want a slice": of(3, []byte{1}, "x"),
			"argument 0 of the state is a <nil>, want a slice":  of(3, nil),
			"slice 0: elements of type *int have no meaning":    of(3, []*int{}),
			"slice 0: elements of type struct {} have no size":  of(3, []struct{}{{}}),
			"slice 0: elements of type string have no meaning":  of(3, []string{"x"}),
			"version -2, want -1 or more":                       of(-2, []byte{1}),
			"Restore: invalid argument: the Comm is nil": func() (int, error) {
				return Restore(t.Context(), nil, 3, []byte{1})
			},
		} {
			version, err := call()
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) || version != 3 && version != -2 {
				t.Errorf("version %d, error %v, want %q", version, err, want)
			}
		}
		return nil
	})
}

// A source that is lost half way costs nothing: the others get its loss, their version, and slices without a change.
func TestRestoreFromALostSource(t *testing.T) {
	for _, windows := range []int{0, 1, 3, 1 << 20} { // that the source has sent
		const ranks, window = 4, 1000
		errs := runRanks(t, ranks, func(w *fakeWorld, c *Comm) error {
			m := newModel(rand.New(rand.NewPCG(4, 4)), 2000)
			versions := []int{7, -1, 7, 3}
			m.fill(versions[c.Rank()])
			if c.Rank() != 2 {
				version, err := restore(t.Context(), c, window, versions[c.Rank()], m.state())
				if !errors.Is(err, ErrRankLost) || !m.holds(versions[c.Rank()]) {
					t.Errorf("rank %d after %d windows: version %d, %v; unchanged: %v", c.Rank(), windows, version, err,
						m.holds(versions[c.Rank()]))
				}
				return nil
			}
			s, err := stateOf(c, m.state())
			if err == nil {
				_, err = s.agree(t.Context(), c, 7)
			}
			groups := groupsOf(versions, testutil.OneHost(ranks))
			for at := 0; at < min(s.bytes, windows*window) && err == nil; at += window {
				err = s.exchange(t.Context(), c, nil, groups, nil, at, min(window, s.bytes-at))
			}
			w.Fail(2, errors.New("it was killed"))
			return err
		})
		if err := errors.Join(errs...); err != nil && !errors.Is(err, ErrRankLost) {
			t.Error(err)
		}
	}
}

// Every rank without the state is in one group, whose sources have it: those of its own host, where there are any.
func TestGroupsOfRestore(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		n := 1 + rng.IntN(9)
		versions, hosts := make([]int, n), make([]int, n)
		for r := range n {
			versions[r], hosts[r] = rng.IntN(3), rng.IntN(3)
		}
		best, times := slices.Max(versions), make([]int, n)
		for _, g := range groupsOf(versions, hosts) {
			for _, r := range g.receivers {
				times[r]++
				var near, all []int
				for s, v := range versions {
					if v == best {
						all = append(all, s)
					}
					if v == best && hosts[s] == hosts[r] {
						near = append(near, s)
					}
				}
				if near == nil {
					near = all
				}
				if !slices.Equal(g.sources, near) {
					t.Fatalf("versions %v on hosts %v: rank %d receives from %v, want %v", versions, hosts, r, g.sources, near)
				}
			}
		}
		for r, v := range versions {
			if want := 1; v == best && times[r] != 0 || v < best && times[r] != want {
				t.Fatalf("versions %v on hosts %v: rank %d is in %d groups", versions, hosts, r, times[r])
			}
		}
	}
}
