package topo

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// valid returns a graph with an element of every kind.
func valid() *Graph {
	return &Graph{
		Name: "two hosts", Ranks: 4, Hosts: []int{0, 0, 1, 1},
		Links: []Link{
			{A: 0, B: 1, GBytesPerSecond: 20, LatencyUs: 0.2, Kind: "shm", Source: Measured},
			{A: 2, B: 3, GBytesPerSecond: 20, LatencyUs: 0.2, Kind: "shm", Source: Measured},
			{A: 0, B: 2, GBytesPerSecond: 1.25, LatencyUs: 30, Kind: "tcp", Source: Declared},
		},
		Ports: []Port{{Name: "card", Ranks: []int{2, 3}, GBytesPerSecond: 1.25}},
	}
}

// Each way to break a graph is an error that names the element and the reason.
func TestGraphValidate(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		damage func(*Graph)
		want   string
	}{
		{"no ranks", func(g *Graph) { g.Ranks = 0 }, "graph of 0 ranks, want 1..65536"},
		{"many ranks", func(g *Graph) { g.Ranks = 1e6 }, "graph of 1000000 ranks, want 1..65536"},
		{"hosts", func(g *Graph) { g.Hosts = g.Hosts[:3] }, "hosts has 3 entries for 4 ranks: want one for every rank"},
		{"host", func(g *Graph) { g.Hosts[2] = -1 }, "rank 2 is on host -1"},
		{"negative rate", func(g *Graph) { g.Links[1].GBytesPerSecond = -1 }, "links[1] (2-3): gbytes_per_second is -1"},
		{"no rate", func(g *Graph) { g.Links[1].GBytesPerSecond = 0 }, "links[1] (2-3): gbytes_per_second is 0"},
		{"NaN", func(g *Graph) { g.Links[0].GBytesPerSecond = math.NaN() }, "links[0] (0-1): gbytes_per_second is NaN"},
		{"infinite", func(g *Graph) { g.Links[0].GBytesPerSecond = math.Inf(1) },
			"links[0] (0-1): gbytes_per_second is +Inf"},
		{"absurd rate", func(g *Graph) { g.Links[0].GBytesPerSecond = 1e300 },
			"links[0] (0-1): gbytes_per_second is 1e+300, want 1e-09..1e+09 GB/s"},
		{"no rate at all", func(g *Graph) { g.Links[0].GBytesPerSecond = 1e-300 },
			"links[0] (0-1): gbytes_per_second is 1e-300, want 1e-09..1e+09 GB/s"},
		{"absurd latency", func(g *Graph) { g.Links[0].LatencyUs = 1e300 },
			"links[0] (0-1): latency_us is 1e+300, want 0 or 1e-09..1e+09 microseconds"},
		{"small latency", func(g *Graph) { g.Links[0].LatencyUs = 1e-300 }, "links[0] (0-1): latency_us is 1e-300"},
		{"absurd port", func(g *Graph) { g.Ports[0].GBytesPerSecond = 1e300 },
			`ports[0] ("card"): gbytes_per_second is 1e+300`},
		{"latency", func(g *Graph) { g.Links[0].LatencyUs = -0.1 }, "links[0] (0-1): latency_us is -0.1"},
		{"NaN latency", func(g *Graph) { g.Links[0].LatencyUs = math.NaN() }, "links[0] (0-1): latency_us is NaN"},
		{"source", func(g *Graph) { g.Links[0].Source = "guessed" }, `links[0] (0-1): source "guessed"`},
		{"duplicate", func(g *Graph) { g.Links[2] = Link{A: 3, B: 2, GBytesPerSecond: 1} },
			"links[2] (3-2) is given twice: it is links[1] already"},
		{"unknown a", func(g *Graph) { g.Links[2].A = 4 }, "links[2] (4-2): rank 4 is unknown, want 0..3"},
		{"unknown b", func(g *Graph) { g.Links[2].B = -1 }, "links[2] (0--1): rank -1 is unknown"},
		{"self", func(g *Graph) { g.Links[2].B = 0 }, "links[2] (0-0) joins a rank with itself"},
		{"two parts", func(g *Graph) { g.Links = g.Links[:2] }, "not connected: 2 components: {0,1} {2,3}"},
		{"port rate", func(g *Graph) { g.Ports[0].GBytesPerSecond = 0 }, `ports[0] ("card"): gbytes_per_second is 0`},
		{"port of nobody", func(g *Graph) { g.Ports[0].Ranks = nil }, `ports[0] ("card") holds 0 of 4 ranks`},
		{"port of all", func(g *Graph) { g.Ports[0].Ranks = []int{0, 1, 2, 3} }, `ports[0] ("card") holds 4 of 4 ranks`},
		{"port of an unknown", func(g *Graph) { g.Ports[0].Ranks[1] = 9 }, `ports[0] ("card"): rank 9 is unknown`},
		{"port of one twice", func(g *Graph) { g.Ports[0].Ranks[1] = 2 }, `ports[0] ("card"): rank 2 is given twice`},
		{"port without name", func(g *Graph) { g.Ports[0].Name = "" }, "every port needs a name"},
		{"ports of one name", func(g *Graph) { g.Ports = append(g.Ports, g.Ports[0]) }, "every port needs a name of its own"},
	} {
		g := valid()
		c.damage(g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// A graph that is not connected is named by its parts, shortly when there are many.
func TestDisconnected(t *testing.T) {
	g := UniformGraph(40)
	g.Links = slices.DeleteFunc(g.Links, func(l Link) bool { return l.B > 4 && l.A/2 != l.B/2 })
	err := g.Validate()
	var apart *DisconnectedError
	if !errors.As(err, &apart) || len(apart.Components) != 18 {
		t.Fatalf("%v, want 18 components", err)
	}
	want := "the graph is not connected: 18 components: {0-5} {6,7} {8,9} {10,11} {12,13} {14,15} {16,17} {18,19} " +
		"and 10 more"
	if got := err.Error(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The canonical form does not depend on how the graph was put together.
func TestCanonicalForm(t *testing.T) {
	g := valid()
	want := `{"name":"two hosts","ranks":4,"hosts":[0,0,1,1],"links":[` +
		`{"a":0,"b":1,"gbytes_per_second":20,"latency_us":0.2,"kind":"shm","source":"measured"},` +
		`{"a":0,"b":2,"gbytes_per_second":1.25,"latency_us":30,"kind":"tcp","source":"declared"},` +
		`{"a":2,"b":3,"gbytes_per_second":20,"latency_us":0.2,"kind":"shm","source":"measured"}],` +
		`"ports":[{"name":"card","ranks":[2,3],"gbytes_per_second":1.25}]}`
	h := valid()
	slices.Reverse(h.Links)
	slices.Reverse(h.Ports[0].Ranks)
	for i, l := range h.Links {
		h.Links[i].A, h.Links[i].B = l.B, l.A
	}
	for _, x := range []*Graph{g, h} {
		data, err := x.AppendJSON(nil)
		if err != nil || string(data) != want {
			t.Errorf("%s, %v\nwant\n%s", data, err, want)
		}
	}
	if h.Links[0].A != 2 || h.Ports[0].Ranks[0] != 3 {
		t.Error("AppendJSON changed the graph")
	}
	if g.Digest() != h.Digest() || len(g.Digest()) != 16 {
		t.Errorf("digests %s and %s", g.Digest(), h.Digest())
	}
	h.Links[0].GBytesPerSecond = math.Nextafter(20, 21)
	if g.Digest() == h.Digest() {
		t.Error("another rate, the same digest")
	}
}

// refusedGraphs are texts that are no graph, with the errors for them.
var refusedGraphs = []struct{ name, text, want string }{
	{"unknown field", `{"ranks": 1, "lnks": []}`, `unknown field "lnks", want name, ranks, hosts, links or ports`},
	{"unknown field of a link", `{"ranks": 2, "links": [{"a": 0, "b": 1, "gbps": 8}]}`,
		`links[0] has an unknown field "gbps", want a, b, gbytes_per_second, latency_us, kind, source, ` +
			`declared_gbytes_per_second`},
	{"unknown field of a port", `{"ranks": 2, "links": [], "ports": [{"rate": 1}]}`,
		`ports[0] has an unknown field "rate", want name, ranks, gbytes_per_second or kind`},
	{"field in capitals", `{"ranks": 1, "Links": []}`, `unknown field "Links"`},
	{"more text", "{\"ranks\": 1, \"links\": []}\n  {}", "line 2, column 3: more text behind"},
	{"no JSON", "{\n \"ranks\": eight}", `ranks: line 2, column 11: invalid character 'e' looking for beginning of value`},
	{"no colon", "{\n \"ranks\" 8}", `line 2, column 10: invalid character '8' after object key`},
	{"no colon in a link", "{\"ranks\": 2, \"links\": [{\"a\" 0}]}",
		`links[0].a: line 1, column 29: invalid character '0' after object key`},
	{"NaN", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":NaN}]}`,
		`links[0].gbytes_per_second: line 1, column 57: invalid character 'N'`},
	{"infinite", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":-Infinity}]}`,
		`links[0].gbytes_per_second: line 1, column 58: invalid character 'I'`},
	{"NaN for a port", `{"ranks": 2, "links": [], "ports": [{"name":"x","ranks":[0,nan]}]}`,
		`ports[0].ranks[1]: line 1, column 61: invalid character 'a'`},
	{"exponent", `{"ranks": 1e1, "links": []}`,
		`ranks is 1e1, want a whole number without point and exponent (line 1, column 11)`},
	{"ranks without end", `{"ranks": 99999999999999999999, "links": []}`,
		`ranks is 99999999999999999999, which is out of range`},
	{"cut off in a link", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_sec`,
		"links[0]: line 1, column 52: the JSON text ends too early, at byte 51"},
	{"cut off in a value", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":`,
		`links[0].gbytes_per_second: line 1, column 57: the JSON text ends too early`},
	{"cut off between links", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1},`,
		"links[1]: line 1, column 60: the JSON text ends too early"},
	{"cut off in a port", `{"ranks": 2, "links": [], "ports": [{"name":"x","ranks":[0,`,
		"ports[0].ranks[1]: line 1, column 60: the JSON text ends too early"},
	{"a port of one twice", `{"ranks": 2, "links": [], "ports": [{"name":"x","ranks":[0,0],"gbytes_per_second":1}]}`,
		`ports[0] ("x"): rank 0 is given twice`},
	{"a word for a number", `{"ranks": "8", "links": []}`, `ranks holds a string, want a whole number`},
	{"a fraction", `{"ranks": 1.5, "links": []}`, `ranks is 1.5, want a whole number`},
	{"not an array", `{"ranks": 1, "links": 5}`, `links holds a number, want an array`},
	{"not an object", `[]`, "holds an array, want an object"},
	{"a large number", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1e999}]}`,
		`links[0].gbytes_per_second is 1e999, which is out of range`},
	{"not even a link", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1}, 7]}`,
		"links[1] holds a number, want an object"},
	{"no a", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1}, {"b":1,"gbytes_per_second":1}]}`,
		`links[1].a is missing`},
	{"no b", `{"ranks": 2, "links": [{"a":0,"gbytes_per_second":1}]}`, `links[0].b is missing`},
	{"no rate", `{"ranks": 2, "links": [{"a":0,"b":1}]}`, `links[0].gbytes_per_second is missing`},
	{"no name", `{"ranks": 2, "links": [], "ports": [{"ranks":[0],"gbytes_per_second":1}]}`, `ports[0].name is missing`},
	{"no ranks of a port", `{"ranks": 2, "links": [], "ports": [{"name":"x","gbytes_per_second":1}]}`,
		`ports[0].ranks is missing`},
	{"no rate of a port", `{"ranks": 2, "links": [], "ports": [{"name":"x","ranks":[0]}]}`,
		`ports[0].gbytes_per_second is missing`},
	{"no ranks", `{"links": []}`, `ranks is missing`},
	{"no links", `{"ranks": 1}`, `links is missing`},
	{"links twice", `{"ranks": 1, "links": [], "links": []}`, `links is given twice`},
	{"a twice", `{"ranks": 2, "links": [{"a":0,"a":1,"b":1,"gbytes_per_second":1}]}`, `links[0].a is given twice`},
	{"null for a rank", `{"ranks": 2, "links": [{"a":null,"b":1,"gbytes_per_second":1}]}`,
		`links[0].a is null, want a whole number`},
	{"null for links", `{"ranks": 2, "links": null}`, `links is null, want an array`},
	{"null for a link", `{"ranks": 2, "links": [null]}`, "links[0] is null, want an object"},
	{"null for a host", `{"ranks": 2, "links": [], "hosts": [0, null]}`, "hosts[1] is null, want a whole number"},
	{"a word in a port", `{"ranks": 2, "links": [], "ports": [{"name":"x","ranks":[0,"1"],"gbytes_per_second":1}]}`,
		"ports[0].ranks[1] holds a string, want a whole number"},
	{"absurd rate", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1e300}]}`,
		"links[0] (0-1): gbytes_per_second is 1e+300"},
	{"name that plays with the terminal", `{"name": "x\u001b[2J", "ranks": 1, "links": []}`,
		`the graph's name is "x\x1b[2J", with a character that cannot be printed`},
	{"kind of a port that plays with the terminal", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1}],
		"ports": [{"name": "x", "ranks": [0], "gbytes_per_second": 1, "kind": "\u009b"}]}`,
		`ports[0] ("x"): kind is "\u009b", with a character`},
	{"port cost below 1", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1,"port_cost":0.5}]}`,
		`links[0] (0-1): port_cost is 0.5, want 1..1000`},
	{"kind that plays with the terminal", `{"ranks": 2, "links": [{"a":0,"b":1,"gbytes_per_second":1,"kind":"\u009b"}]}`,
		`links[0] (0-1): kind is "\u009b", with a character`},
	{"long name of a port", `{"ranks": 2, "links": [], "ports": [{"name":"` + strings.Repeat("x",
		257) + `","ranks":[0],"gbytes_per_second":1}]}`, "ports[0]: name has 257 characters"},
	{"long name", `{"name": "` + strings.Repeat("x", 257) + `", "ranks": 1, "links": []}`,
		`the graph's name has 257 characters, want at most 256`},
	{"million of ranks", `{"ranks": 1000000, "links": []}`, "1000000 ranks, want 1..65536"},
	{"negative ranks", `{"ranks": -1, "links": []}`, "-1 ranks"},
	{"null", `null`, "the JSON value is null, want an object"},
}

func TestParseGraphRefuses(t *testing.T) {
	data, err := valid().AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := ParseGraph(append(data, " \n"...)); err != nil || g.Digest() != valid().Digest() {
		t.Errorf("%v, %v", g, err)
	}
	if g, err := ParseGraph(append([]byte("\ufeff"), data...)); err != nil || g.Digest() != valid().Digest() {
		t.Errorf("with a byte order mark: %v, %v", g, err)
	}
	for i := range data { // wherever the file is cut off
		if _, err := ParseGraph(data[:i]); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
	for _, c := range refusedGraphs {
		if _, err := ParseGraph([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// Sizes are checked before they are used.
func TestParseGraphBounds(t *testing.T) {
	const port = `{"name":"","ranks":[],"gbytes_per_second":1}`
	many := `{"ranks": 2, "ports": [` + strings.Repeat(port+",", MaxPorts) + port + `], "links": []}`
	if _, err := ParseGraph([]byte(many)); err == nil ||
		!strings.Contains(err.Error(), "0 links and 65537 ports, want at most 2097152 and 65536") {
		t.Errorf("too many ports: %v", err)
	}
	many = `{"ranks": 2, "hosts": [` + strings.Repeat("0,", MaxLinks) + `0], "links": []}`
	if _, err := ParseGraph([]byte(many)); err == nil ||
		!strings.Contains(err.Error(), "hosts has more than 2097152 elements") {
		t.Errorf("far too many hosts: %v", err)
	}
	many = `{"ranks": 2, "hosts": [` + strings.Repeat("0,", MaxRanks) + `0], "links": []}`
	if _, err := ParseGraph([]byte(many)); err == nil ||
		!strings.Contains(err.Error(), "hosts has 65537 entries for 2 ranks") {
		t.Errorf("too many hosts: %v", err)
	}
}

func TestTreeValidate(t *testing.T) {
	good := func() Tree { return Tree{Root: 0, Parent: []int{-1, 0, 0, 2}, Round: []int{0, 1, 2, 1}} }
	if err := good().Validate(4); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		damage func(*Tree)
		want   string
	}{
		{"size", func(t *Tree) { t.Parent = t.Parent[:3] }, "parents for 3 ranks, want 4"},
		{"root", func(t *Tree) { t.Root = 4 }, "root 4 of the tree is not a rank"},
		{"root with a parent", func(t *Tree) { t.Root = 1 }, "root 1 of the tree has parent 0"},
		{"two roots", func(t *Tree) { t.Parent[2] = -1 }, "rank 2 of the tree has parent -1"},
		{"own parent", func(t *Tree) { t.Parent[2] = 2 }, "rank 2 of the tree has parent 2"},
		{"unknown parent", func(t *Tree) { t.Parent[2] = 4 }, "rank 2 of the tree has parent 4"},
		{"cycle", func(t *Tree) { t.Parent[2] = 3 }, "rank 2 of the tree never reaches root 0"},
		{"rounds", func(t *Tree) { t.Round = t.Round[:3] }, "rounds for 3 ranks, want 4"},
		{"round of the root", func(t *Tree) { t.Round[0] = 3 }, "root 0 of the tree sends in round 3"},
		{"no round", func(t *Tree) { t.Round[1] = 0 }, "rank 1 sends in round 0, want 1..2"},
		{"round 3", func(t *Tree) { t.Round[2] = 3 }, "rank 2 sends in round 3, want 1..2"},
		{"after its parent", func(t *Tree) { t.Round[2] = 1; t.Round[1] = 2 },
			"rank 3 sends in round 1, but its parent 2 has sent in round 1 already"},
		{"two at once", func(t *Tree) { t.Round[1] = 2 }, "rank 0 has two transfers in round 2"},
	} {
		bad := good()
		c.damage(&bad)
		if err := bad.Validate(4); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// Reroot turns the links between the old root and the new one, and no others.
func TestReroot(t *testing.T) {
	old := Tree{Root: 0, Parent: []int{-1, 0, 0, 1, 1, 4}, Round: []int{0, 3, 1, 1, 2, 1}, Note: "as found"}
	for root, parent := range [][]int{{-1, 0, 0, 1, 1, 4}, {1, -1, 0, 1, 1, 4}, {2, 0, -1, 1, 1, 4}, {1, 3, 0, -1, 1, 4},
		{1, 4, 0, 1, -1, 4}, {1, 4, 0, 1, 5, -1}} {
		got := old.Reroot(root)
		if got.Root != root || !slices.Equal(got.Parent, parent) || got.Validate(6) != nil {
			t.Errorf("root %d: %+v, want parents %v", root, got, parent)
		}
		if kept := got.Round != nil && got.Note != ""; kept != (root == old.Root) {
			t.Errorf("root %d: rounds and note: %+v", root, got)
		}
		if back := got.Reroot(0); !slices.Equal(back.Parent, old.Parent) {
			t.Errorf("root %d and back: %v", root, back.Parent)
		}
	}
	if got := Star(4, 2); got.Root != 2 || !slices.Equal(got.Parent, []int{2, 2, -1, 2}) {
		t.Errorf("star: %+v", got)
	}
}

func TestTreeShape(t *testing.T) {
	tr := Tree{Root: 2, Parent: []int{2, 0, -1, 2}}
	if got := tr.Children(); !reflect.DeepEqual(got, [][]int{{1}, nil, {3, 0}, nil}) {
		t.Errorf("children %v: the shallow subtree of 3 first", got)
	}
	if tr.Depth() != 2 {
		t.Errorf("depth %d", tr.Depth())
	}
	want := "2\n├─ 3\n└─ 0\n   └─ 1\n"
	var b strings.Builder
	if tr.Draw(&b, func(int) string { return "" }); b.String() != want {
		t.Errorf("drawn as\n%swant\n%s", b.String(), want)
	}
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 65536: 16} {
		if got := Rounds(n); got != want {
			t.Errorf("Rounds(%d) = %d, want %d", n, got, want)
		}
	}
}

// A tree survives its JSON form and renaming there and back.
func TestTreeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		tr := Tree{Parent: make([]int, n)}
		tr.Parent[0] = -1
		for v := 1; v < n; v++ {
			tr.Parent[v] = rapid.IntRange(0, v-1).Draw(t, "parent")
		}
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for v := range n {
				if !yield(v) {
					return
				}
			}
		})).Draw(t, "order")
		tr = tr.Renamed(order)
		data, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		var again Tree
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatal(err)
		}
		back := make([]int, n)
		for v, r := range order {
			back[r] = v
		}
		if !reflect.DeepEqual(again.Renamed(back).Renamed(order), tr) {
			t.Fatalf("%v came back as %v", tr, again)
		}
	})
}

func TestGraphText(t *testing.T) {
	want := `two hosts: 4 ranks, 3 links, measured and declared
host 0: ranks 0,1
host 1: ranks 2,3
  GB/s      0      1      2      3
     0      .     20   1.25      .
     1     20      .      .      .
     2   1.25      .      .     20
     3      .      .     20      .
    us      0      1      2      3
     0      .    0.2     30      .
     1    0.2      .      .      .
     2     30      .      .    0.2
     3      .      .    0.2      .
card of ranks 2,3: 1.25 GB/s
`
	if got := valid().String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := UniformGraph(17).String(); !strings.Contains(got, "136 links, declared\n136 links of 1 GB/s\n") {
		t.Errorf("%.200s", got)
	}
}

// FuzzParseGraph: for any bytes, a graph that is read is valid, and its canonical form reads back as itself.
func FuzzParseGraph(f *testing.F) {
	for _, g := range []*Graph{valid(), UniformGraph(5)} { // testdata/fuzz has more
		data, err := g.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-3])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ParseGraph(data)
		if err != nil {
			return
		}
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		canonical, err := g.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ParseGraph(canonical)
		if err != nil {
			t.Fatal(err)
		}
		again, err := h.AppendJSON(nil)
		if err != nil || string(again) != string(canonical) || g.Digest() != h.Digest() {
			t.Fatalf("%s came back as %s, %v", canonical, again, err)
		}
		_ = g.String()
	})
}
