package network

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
)

// parse reads the JSON form of a Network, as a cache has it.
func parse(data []byte) (*Network, error) {
	n := new(Network)
	if err := strict.UnmarshalJSON(data, n, strict.JSONLimits{Bytes: MaxBytes, Elements: topo.MaxLinks}); err != nil {
		return nil, err
	}
	return n, n.Validate()
}

func TestJSON(t *testing.T) {
	for _, w := range []*world{both(0.8, 0.4, 0.2, 0.1), both(1, 1), mesh(matrix(4, func(a, b int) float64 {
		if a+b == 3 {
			return 0
		}
		return 0.1
	}))} {
		n := w.infer(t, Quick, 0.03, 1)
		n.Probe, n.At = "full", 1234567890
		data, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(data)
		if err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("wrote %+v\nread %+v, %v", n, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := `{"probe":"quick","measured_at":5,"hosts":["a","b"],"graph":{"ranks":2,"links":[{"a":0,"b":1,` +
		`"gbytes_per_second":1,"latency_us":5,"source":"measured"}],"ports":[]}}`
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"quick"`: `"fast"`, `"a":0`: `"a":1`, `"b":1`: `"b":7`, `,"b"]`: `]`,
		`"latency_us":5`: `"latency_us":-5`, `"measured"`: `"guessed"`,
		`"gbytes_per_second":1,"latency`: `"gbytes_per_second":0,"latency`,
		`[]}}`:                           `[]}} {}`, `"ports":[]`: `"cards":[]`, `"ranks":2`: `"ranks":2,"hosts":[0,1]`,
		`"source":"measured"`: `"source":"measured","routed":true`,
		`"ports":[]}`: `"ports":[{"name":"x","ranks":[1],"gbytes_per_second":1},{"name":"y","ranks":[1],` +
			`"gbytes_per_second":1}]}`,
		`,"ports":[]`: `,"ports":[{"name":"x","ranks":[3],"gbytes_per_second":1}]`,
		`"a","b"`:     `"` + strings.Repeat("x", 300) + `","b"`,
	} {
		text := strings.Replace(good, from, to, 1)
		if n, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: read %+v", text, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, hosts := range []int{2, 3} {
		data, err := json.Marshal(Declared(make([]string, hosts), 1, 10))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"probe":"quick","hosts":["a","b"],"graph":{"ranks":2,"links":[{"a":-1,"b":1e9}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parse(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parse(again); err != nil || fmt.Sprint(back) != fmt.Sprint(n) {
			t.Fatalf("%s: %v", again, err)
		}
		hostOf, local := shared(len(n.Hosts), 1)
		if _, err := Graph(hostOf, local, n); err != nil {
			t.Fatal(err)
		}
		_ = n.Text(0)
	})
}

// A network in another order equals one that is measured in that order.
func TestRenumber(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(2, 7).Draw(rt, "hosts")
		rates := make([][2]float64, hosts)
		for h := range rates {
			rates[h] = [2]float64{rapid.Float64Range(0.1, 1).Draw(rt, "out"), rapid.Float64Range(0.1, 1).Draw(rt, "in")}
		}
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for h := range hosts {
				if !yield(h) {
					return
				}
			}
		})).Draw(rt, "order")
		n := cards(rates...).infer(rt, Quick, 0, 1)
		turned := n.Renumber(order)
		if err := turned.Validate(); err != nil {
			rt.Fatal(err)
		}
		for i, a := range order {
			if turned.Hosts[i] != n.Hosts[a] {
				rt.Fatalf("host %d is %s, want %s", i, turned.Hosts[i], n.Hosts[a])
			}
			for k, b := range order[:i] {
				if is, was := turned.Graph.Rates().At(i, k), n.Graph.Rates().At(a, b); is != was {
					rt.Fatalf("pair %d-%d: %v GB/s, was %v", k, i, is, was)
				}
			}
		}
		for _, p := range n.Graph.Ports {
			of := func(q topo.Port) bool { return order[q.Ranks[0]] == p.Ranks[0] }
			i := slices.IndexFunc(turned.Graph.Ports, of)
			if i < 0 || turned.Graph.Ports[i].GBytesPerSecond != p.GBytesPerSecond {
				rt.Fatalf("ports %+v, were %+v", turned.Graph.Ports, n.Graph.Ports)
			}
		}
	})
}

// The text for people: the source of each value, its age, and the shared rates.
func TestText(t *testing.T) {
	even := both(0.0625, 0.0625, 0.0625).infer(t, Quick, 0, 1)
	even.Probe, even.At = "quick", 1000
	uneven := mesh(matrix(4, func(a, b int) float64 { return mesh4[[2]int{a, b}] })).infer(t, Quick, 0, 1)
	uneven.Probe, uneven.At = "full", 1000
	for _, c := range []struct {
		n    *Network
		now  int64
		want []string
	}{
		{even, 1003, []string{"network of 3 hosts: measured (quick) just now",
			"card of h0: 0.0625 GB/s\ncard of h1: 0.0625 GB/s\n", "h0      . 0.0625 0.0625", "h0      .     30     30"}},
		{even, 1000 + 3*86400, []string{"measured (quick) 3 days ago"}},
		{uneven, 1100, []string{"measured (full) 100 seconds ago"}},
		{Declared([]string{"a", "b", "c"}, 1.25, 30), 5,
			[]string{"declared, nothing was measured", "a      .   1.25   1.25", "card of c: 1.25 GB/s"}},
		{both(0.8, 0.4, 0.2, 0.1).infer(t, Quick, 0, 1), 5,
			[]string{"card of h1: 0.4 GB/s\n"}},
	} {
		got := c.n.Text(c.now)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nhas no %q", got, want)
			}
		}
	}
}

func TestAge(t *testing.T) {
	for seconds, want := range map[int64]string{-5: "just now", 0: "just now", 90: "90 seconds ago", 600: "10 minutes ago",
		7300: "2 hours ago", 3 * 86400: "3 days ago"} {
		if got := age(seconds); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
}
