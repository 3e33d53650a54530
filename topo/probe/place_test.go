package probe

import (
	"encoding/json"
	"slices"
	"testing"
)

// sockets are places of ranks bound to a core each, dealt to two sockets.
func sockets(ranks int) []Place {
	places := make([]Place, ranks)
	for r := range places {
		places[r] = Place{Bound: true, Share: [len(levels)]string{string(rune('a' + r)), "", []string{"x", "y"}[2*r/ranks]}}
	}
	return places
}

// found returns the measurements of pairs that have these rates.
func found(pairs [][2]int, rate func(a, b int) float64) (list []Pair) {
	for _, p := range pairs {
		list = append(list, Pair{A: p[0], B: p[1], LatencyUs: 1, GBytesPerSecond: rate(p[0], p[1])})
	}
	return list
}

// A few pairs of every class stand for the others, and the graph is that of all.
func TestSampling(t *testing.T) {
	const ranks = 32
	between := func(a, b int) float64 {
		if 2*a/ranks != 2*b/ranks {
			return 1
		}
		return 10
	}
	s := NewSampling(sockets(ranks))
	first := s.Pairs()
	if len(first) != 2*samples {
		t.Errorf("%d pairs are measured, want %d of each of two classes", len(first), samples)
	}
	got, want := Graph(ranks, s.Fill(found(first, between))), Graph(ranks, slices.Values(found(pairsOf(ranks), between)))
	if got.Digest() != want.Canonical().Digest() {
		t.Errorf("sampled\n%v\nmeasured\n%v", got, want)
	}
}

// Ranks that run anywhere measure different figures while other work runs on their cores, and yet their graph is even.
func TestDisturbed(t *testing.T) {
	const ranks = 4
	s := NewSampling(make([]Place, ranks))
	loaded := found(s.Pairs(), func(a, b int) float64 { return []float64{9, 8, 0.3, 0.2}[(a+b)%4] })
	loaded[0].LatencyUs, loaded[1].LatencyUs = 900, 40
	if g := Graph(ranks, s.Fill(loaded)); !g.IsUniform() {
		t.Errorf("%v", g)
	}
}

// FuzzFindings: findings that can be read make a valid graph, and are written as they were.
func FuzzFindings(f *testing.F) {
	const ranks = 3
	rate := func(a, b int) float64 { return float64(a + b) }
	data, err := json.Marshal(&Findings{Places: sockets(ranks), Pairs: found(pairsOf(ranks), rate)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"places":[{},{},{}],"pairs":[{"a":0,"b":9,"latency_us":1,"gbytes_per_second":1}]}`))
	f.Add([]byte(`{"places":[{},{},{}],"pairs":[{"a":-1,"b":1},{"a":0,"b":1,"gbytes_per_second":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseFindings(data, ranks)
		if err != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseFindings(text, ranks)
		if err != nil || again.Graph().Digest() != got.Graph().Digest() {
			t.Errorf("%s: %v", text, err)
		}
	})
}

// The system reports the same place of this process each time.
func TestHere(t *testing.T) {
	if a, b := Here(), Here(); a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}
