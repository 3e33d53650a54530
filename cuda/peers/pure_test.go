package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo/gpu"
)

func TestSchedule(t *testing.T) {
	for n := 1; n <= 9; n++ {
		var devices []string
		for i := range n {
			devices = append(devices, fmt.Sprint(i))
		}
		for i := 0; i < n; i += 2 { // every second GPU has three ranks
			devices = append(devices, fmt.Sprint(i), fmt.Sprint(i))
		}
		seen := make(map[[2]int]int)
		turns := schedule(devices)
		for _, turn := range turns {
			busy := make(map[string]bool)
			for _, p := range turn {
				a, b := devices[p[0]], devices[p[1]]
				if p[0] >= p[1] || busy[a] || busy[b] {
					t.Fatalf("%d GPUs: turn %v", n, turn)
				}
				busy[a], busy[b] = true, true
				seen[p]++
				if turn.partner(p[0]) != p[1] || turn.partner(p[1]) != p[0] || turn.partner(len(devices)) != -1 {
					t.Fatalf("%d GPUs: partners in %v", n, turn)
				}
			}
		}
		if want := n*(n-1)/2 + (n+1)/2; len(seen) != want {
			t.Errorf("%d GPUs: %d pairs, want %d", n, len(seen), want)
		}
		if most := n + n%2; len(turns) > most {
			t.Errorf("%d GPUs: %d turns, want at most %d", n, len(turns), most)
		}
	}
}

// GPUs that rank 0 does not see, as in another container, are added.
func TestMeet(t *testing.T) {
	m := &gpu.Machine{GPUs: []gpu.GPU{{UUID: "GPU-a"}}, Levels: [][]gpu.Level{{0}}, Refused: [][]string{{""}}}
	both := HostResult{Ranks: []int{0, 1}}
	err := both.meet([]hello{{UUID: "GPU-a", GPU: m.GPUs[0], Machine: m},
		{UUID: "GPU-b", GPU: gpu.GPU{UUID: "GPU-b", PCIeWidth: 8}}})
	if got := both.Machine; err != nil || len(got.GPUs) != 2 || got.Find("GPU-b").PCIeWidth != 8 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, hellos := range map[string][]hello{
		"no machine":    {{UUID: "GPU-a", GPU: gpu.GPU{UUID: "GPU-a"}}},
		"another's GPU": {{UUID: "GPU-a", GPU: gpu.GPU{UUID: "GPU-c"}, Machine: new(gpu.Machine)}},
		"a bad machine": {{UUID: "GPU-a", GPU: gpu.GPU{UUID: "GPU-a"}, Machine: &gpu.Machine{GPUs: make([]gpu.GPU, 2)}}},
		"bad dimensions": {{UUID: "GPU-a", GPU: gpu.GPU{UUID: "GPU-a"},
			Machine: &gpu.Machine{GPUs: []gpu.GPU{{UUID: "GPU-a"}}, Levels: [][]gpu.Level{{0, 0}}}}},
	} {
		if err := (&HostResult{Ranks: []int{0}}).meet(hellos); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A cached result is not trusted.
func FuzzCached(f *testing.F) {
	f.Add([]byte(`{"graph":{"ranks":2,"links":[{"a":0,"b":1,"gbytes_per_second":25,"source":"measured","declared_gbytes_per_second":50}]},"dropped":[{"A":0,"B":1,"Fault":"why"}]}`))
	f.Add([]byte(`{"graph":null}`))
	f.Add([]byte(`{"graph":{"ranks":1,"links":[]},"dropped":[{"A":0,"B":1,"Fault":"\n"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, dropped, err := parseCache(data, 2)
		if err != nil {
			return
		}
		if g.Ranks != 2 || len(dropped) > maxDropped {
			t.Fatalf("%d ranks, %d links", g.Ranks, len(dropped))
		}
		for _, d := range dropped {
			if line := d.Line([]int{4, 5}, []string{"GPU-a", "GPU-b"}); strings.Contains(line, "\n") {
				t.Fatalf("%q is several lines", line)
			}
		}
	})
}

// Messages of other ranks are not trusted.
func FuzzHello(f *testing.F) {
	one := gpu.GPU{UUID: "GPU-a", NVLinks: []gpu.NVLink{{Version: 2, Remote: "0000:17:00.0"}}}
	f.Add(strict.Marshal(&hello{UUID: one.UUID, GPU: one,
		Machine: &gpu.Machine{GPUs: []gpu.GPU{one}, Levels: [][]gpu.Level{{0}}, Refused: [][]string{{""}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b hello
		if strict.Unmarshal(data, &b) != nil {
			return
		}
		h := HostResult{Ranks: []int{0, 1}}
		if h.meet([]hello{b, {UUID: "GPU-z", GPU: gpu.GPU{UUID: "GPU-z"}}}) != nil {
			return
		}
		if _, err := gpu.Graph(h.Machine, h.Devices, nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestValidateRefuses(t *testing.T) {
	machine := `"Machine":{"GPUs":[{"Index":0,"UUID":"GPU-a"}]}`
	graph := `"Graph":{"ranks":1,"links":[]}`
	for want, text := range map[string]string{
		"1 ranks with 0 GPUs":   `{"Ranks":[0],` + machine + `,` + graph + `}`,
		"0 ranks with 0 GPUs":   `{"Ranks":[]}`,
		"is not one of":         `{"Ranks":[0],"Devices":["GPU-b"],` + machine + `,` + graph + `}`,
		"measured the pair 0-1": `{"Ranks":[0],"Devices":["GPU-a"],` + machine + `,` + graph + `,"Found":[{"A":0,"B":1}]}`,
		"drops the link 1-1":    `{"Ranks":[0],"Devices":["GPU-a"],` + machine + `,` + graph + `,"Dropped":[{"A":1,"B":1}]}`,
		"too long, or no text": `{"Ranks":[4,5],"Devices":["GPU-a","GPU-a"],` + machine +
			`,"Graph":{"ranks":2,"links":[{"a":0,"b":1,"gbytes_per_second":1}]},"Dropped":[{"A":0,"B":1,"Fault":"\u001b"}]}`,
		"a graph of 2 ranks": `{"Ranks":[0],"Devices":["GPU-a"],` + machine +
			`,"Graph":{"ranks":2,"links":[{"a":0,"b":1,"gbytes_per_second":1}]}}`,
	} {
		if _, err := parseHost([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func parseHost(data []byte) (*HostResult, error) {
	h := new(HostResult)
	if err := json.Unmarshal(data, h); err != nil {
		return nil, err
	}
	return h, h.Validate()
}

// Results that ranks send are not trusted.
func FuzzHost(f *testing.F) {
	f.Add([]byte(`{"Ranks":[0],"Devices":["GPU-a"],"Machine":{"GPUs":[{"Index":0,"UUID":"GPU-a"}]},"Graph":{"ranks":1,"links":[]}}`))
	f.Add([]byte(`{"Ranks":[0,3],"Devices":["GPU-a","GPU-a"],"Machine":{"GPUs":[{"UUID":"GPU-a"}]},"Graph":{"ranks":2,"links":[{"a":0,"b":1,"gbytes_per_second":1}]},"Found":[{"A":0,"B":1,"Fault":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHost(data)
		if err != nil {
			return
		}
		if len(h.Devices) != h.Graph.Ranks || !json.Valid(data) {
			t.Fatalf("%+v", h)
		}
	})
}
