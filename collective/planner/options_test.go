package planner

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Every option is written as ParseOptions reads it, has a help, and belongs to
// algorithms that exist.
func TestOptionsReadBack(t *testing.T) {
	values := map[string]string{
		"stable": "true", "link-usage-penalty": "0.5", "max-trees": "40", "max-height": "3.5",
		"min-rate": "0.1", "height-tolerance": "0.05", "delay": "us", "greedy": "true", "seed": "18446744073709551615",
	}
	for _, f := range Flags() {
		text := "," + f.Name + "=" + values[f.Name]
		text = f.Takers[0] + text
		o, err := ParseOptions(text)
		if err != nil || f.Help == "" || reflect.DeepEqual(o, Options{Algorithm: o.Algorithm}) {
			t.Errorf("%s: %+v, %v", text, o, err)
			continue
		}
		if again, err := ParseOptions(o.String()); err != nil || !reflect.DeepEqual(o, again) {
			t.Errorf("%s: written %s, read again %+v, %v", text, o.String(), again, err)
		}
		for _, name := range f.Takers {
			if !slices.Contains(Algorithms(), name) {
				t.Errorf("%s belongs to %s, which is no algorithm", f.Name, name)
			}
		}
	}
}

// A zero, or false, that Set was given counts: it stands in the text, and replaces the value set before.
func TestZeroIsGiven(t *testing.T) {
	for _, c := range []struct{ text, name, value, want string }{
		{"packing,seed=7", "seed", "0", "packing,seed=0"},
		{"packing,delay=us", "delay", "hops", "packing,delay=hops"},
		{"star,stable=true", "stable", "false", "star,stable=false"},
		{"packing,greedy=true", "greedy", "false", "packing,greedy=false"},
		{"packing,max-height=3", "max-height", "0", "packing,max-height=0"},
		{"kl", "link-usage-penalty", "0", "kl,link-usage-penalty=0"},
	} {
		o, err := ParseOptions(c.text)
		if err == nil {
			err = o.Set(c.name, c.value)
		}
		if err != nil || o.String() != c.want || o.Map()[c.name] != c.value {
			t.Errorf("%s, then %s=%s: %s, %v, want %s", c.text, c.name, c.value, o.String(), err, c.want)
		}
		if again, err := ParseOptions(o.String()); err != nil || !reflect.DeepEqual(o, again) {
			t.Errorf("%s is read as %+v, %v, want %+v", o.String(), again, err, o)
		}
	}
	// A false option requires nothing, so every algorithm takes it.
	if o, err := ParseOptions("ring,stable=false,greedy=false"); err != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// With a penalty of 0 no tree of kl uses a link that an earlier one has used, while there
// are others; without one it is 0.7.
func TestPenaltyOfZero(t *testing.T) {
	g, _ := topo.Machine("dgx1v")
	digest := func(text string) string {
		o, err := ParseOptions(text)
		if err != nil {
			t.Fatal(err)
		}
		return choose(t, plannerOf(t, g, o), plan.AllReduce, -1, 64<<20).Chosen.Plan.Digest()
	}
	none, zero, usual := digest("kl"), digest("kl,link-usage-penalty=0"), digest("kl,link-usage-penalty=0.7")
	if none != usual || zero == usual {
		t.Errorf("digests without a penalty %s, with 0.7 %s, with 0 %s", none, usual, zero)
	}
}

// Invalid options are refused, and the reason names the valid ones.
func TestOptionsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"best":                       `unknown algorithm "best": want one of flat, `,
		"packing,max-trees=0":        `option max-trees="0": want a whole number from 1 to 4096`,
		"packing,max-trees=2.5":      "want a whole number",
		"packing,max-trees":          "want NAME=VALUE",
		"packing,algorithm=ring":     "want NAME=VALUE",
		"packing,color=red":          `unknown option "color"`,
		"packing,height-tolerance=1": "from 0 to below 1",
		"kl,link-usage-penalty=NaN":  "from 0 to 1",
		"packing,min-rate=Inf":       "want a number from 0",
		"packing,delay=days":         "want hops or us",
		"ring,max-trees=2":           "option max-trees means nothing to algorithm ring: it belongs to packing",
		"star,seed=3":                "option seed means nothing to algorithm star: it belongs to packing, kl",
		",max-trees=2,link-usage-penalty=0.5": "no algorithm has link-usage-penalty (of kl) and max-trees (of packing) " +
			"together",
		"hierarchical:star":                 "want hierarchical:INSIDE/BETWEEN",
		"packing:some":                      `algorithm "packing" has no variant "some"`,
		"flat:one":                          `algorithm "flat" has no variants`,
		"kl:split":                          `algorithm "kl" has no variant "split": want one of one, all`,
		":all":                              `unknown algorithm ":all"`,
		"packing,seed=-1":                   "want a whole number from 0 to 18446744073709551615",
		"packing,greedy=perhaps":            `option greedy="perhaps": want true or false`,
		"packing,max-trees=4,max-height=-2": "want a number from 0",
	} {
		if o, err := ParseOptions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", text, o, err, want)
		}
	}
}

// Options that no command line has read are checked as those are.
func TestOptionsOutOfRange(t *testing.T) {
	for want, o := range map[string]Options{
		`option max-trees="-3": want a whole number from 1 to 4096`:   {MaxTrees: -3},
		`option link-usage-penalty="7": want a number from 0 to 1`:    {Penalty: 7},
		`option min-rate="NaN": want a number from 0`:                 {MinRate: math.NaN()},
		`option height-tolerance="1": want a share from 0 to below 1`: {HeightTolerance: 1},
		`option max-height="-1": want a number from 0`:                {Algorithm: "packing", MaxHeight: -1},
	} {
		if _, err := New(topo.UniformGraph(3), Machine{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// Where every host has one rank, options alone choose the algorithm, too.
func TestOptionsOfLoneRanks(t *testing.T) {
	for _, o := range []Options{{MaxTrees: 1}, {Algorithm: "packing", MaxTrees: 1},
		{Algorithm: "packing:all", MaxTrees: 1}} {
		c := choose(t, plannerOf(t, evenHosts(4, 1), o), plan.AllReduce, -1, 64<<20).Chosen.Candidate
		if c.Algorithm != "packing" || len(c.Channels) != 1 {
			t.Errorf("%s: %s with %d trees", o.String(), c.Name(), len(c.Channels))
		}
	}
}

// Packed trees between hosts that have limits, and so are not those of a part, serve every part from its host.
func TestLimitedPackingOfParts(t *testing.T) {
	g, _ := topo.Machine("abilene")
	for _, kind := range []plan.Kind{plan.AllGather, plan.ReduceScatter} {
		p := plannerOf(t, g, Options{Algorithm: "packing", MaxTrees: 2})
		c := choose(t, p, kind, -1, 64<<20).Chosen
		if err := p.Site.Verify(c); err != nil || c.Candidate.Algorithm != "packing" || len(c.Plan.Lanes)%11 != 0 {
			t.Errorf("%v: %s with %d lanes, %v", kind, c.Name(), len(c.Plan.Lanes), err)
		}
	}
}

// An algorithm, or options, without a plan for a collective are reported.
func TestOffers(t *testing.T) {
	g, _ := topo.Machine("dgx1v")
	for _, c := range []struct {
		options string
		kind    plan.Kind
		want    string
	}{
		{"", plan.AllToAll, ""},
		{"packing,max-trees=2", plan.AllReduce, ""},
		{"packing:all", plan.Broadcast, ""},
		{"packing", plan.AllToAll, "packing has no plan for alltoall here: data goes from rank to rank"},
		{",max-trees=2", plan.Gather, "packing has no plan for gather here: data goes from rank to rank"},
		{"hierarchical:star/direct", plan.AllReduce,
			"hierarchical has no plan for allreduce here: all ranks are on one host"},
		{"kl:own", plan.AllReduce, "kl:own has no plan for allreduce here: it is for collectives with a root"},
		{"packing:low", plan.AllReduce, "packing:low has no plan for allreduce here: it is for devices"},
		{"doubling", plan.AllReduce, "doubling has no plan for allreduce here: the graph has no link between ranks"},
	} {
		o, err := ParseOptions(c.options)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(g, Machine{}, o)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Supports(c.kind, 0)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s for %v: %v, want %q", c.options, c.kind, err, c.want)
		}
	}
}

// Where every host has one rank, the error for hierarchical names the algorithm to request in its place.
func TestOffersOfLoneRanks(t *testing.T) {
	p := plannerOf(t, evenHosts(4, 1), Options{Algorithm: "hierarchical"})
	if err := p.Supports(plan.AllReduce, 0); err == nil ||
		!strings.Contains(err.Error(), "every host has one rank: name the") {
		t.Errorf("%v", err)
	}
}

// FuzzParseOptions: options that are read are valid, and their text is read as the same options again.
func FuzzParseOptions(f *testing.F) {
	for _, text := range []string{
		"", "ring", "packing,max-trees=4,seed=7", "hierarchical:kl/packing:all", ",max-height=1e3,delay=us,greedy=1",
		"kl,link-usage-penalty=0.7,seed=10", ",stable=true", "packing,height-tolerance=0.999,min-rate=1e-9",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOptions(text)
		if err != nil {
			return
		}
		if again, err := ParseOptions(o.String()); err != nil || !reflect.DeepEqual(o, again) {
			t.Errorf("%q is %+v, written as %q and read as %+v: %v", text, o, o.String(), again, err)
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// Plans do not depend on the order in which the links of a graph stand.
func TestOrderOfLinks(t *testing.T) {
	for _, name := range []string{"dgx1v", "pcie8", "abilene", "ethernet4x4"} {
		g, _ := topo.Machine(name)
		turned := *g
		turned.Links = slices.Clone(g.Links)
		slices.Reverse(turned.Links)
		for i, l := range turned.Links {
			turned.Links[i].A, turned.Links[i].B = l.B, l.A
		}
		p, other := plannerOf(t, g, Options{}), plannerOf(t, &turned, Options{})
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast} {
			var digests []string
			for _, p := range []*Planner{p, other} {
				for _, bytes := range []int64{8, 64 << 10, 64 << 20} {
					c, err := p.Choose(kind, 0, bytes)
					if err != nil {
						t.Fatal(err)
					}
					digests = append(digests, c.Chosen.Plan.Digest())
				}
			}
			if !slices.Equal(digests[:3], digests[3:]) {
				t.Errorf("%v on %s: %v and %v", kind, name, digests[:3], digests[3:])
			}
		}
	}
}
