package hostlist

import (
	"fmt"
	"strings"
	"testing"
)

// Aggregators take the slots that ranks leave, hosts without ranks first, one on each
// in turn; then the ranks' hosts.
func TestAggregatorPlaces(t *testing.T) {
	for _, c := range []struct {
		hosts   string
		size, n int
		by      By
		want    string
	}{
		{"a:4,b:4", 8, 2, BySlot, "a[0 1 2 3][0] b[4 5 6 7][1]"},
		{"a:4,b:4,c:1,d:1", 8, 2, BySlot, "a[0 1 2 3][] b[4 5 6 7][] c[][0] d[][1]"},
		{"a:2,b:2", 2, 2, BySlot, "a[0 1][] b[][0 1]"},
		{"a:2,b:2", 2, 3, ByHost, "a[0][0 2] b[1][1]"},
		{"a:1,b:1", 2, 3, BySlot, "a[0][0 2] b[1][1]"},
		{"a:2,b:1,c:3", 1, 0, BySlot, "a[0][]"},
	} {
		hosts, err := Parse(c.hosts)
		if err != nil {
			t.Fatal(err)
		}
		places, err := Map(hosts, Request{Size: c.size, By: c.by, Aggregators: c.n})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range places {
			got = append(got, fmt.Sprintf("%s%v%v", p.Host.Name, p.Ranks, p.Aggregators))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s, %d ranks and %d aggregators: %s, want %s", c.hosts, c.size, c.n, text, c.want)
		}
	}
}
