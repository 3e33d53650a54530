//go:build linux

package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
)

// measureHosts measures with a process in every host.
func measureHosts(t *testing.T, hosts *nethosts.Hosts, e network.Effort) *network.Network {
	t.Helper()
	job := hostJob{Effort: e}
	names := make([]string, hosts.Len())
	for h := range names {
		names[h] = hosts.Name(h)
		job.Addrs = append(job.Addrs, hosts.Addr(h).String()+":7100")
	}
	var commands []*exec.Cmd
	var outputs []*bytes.Buffer
	for h := range names {
		job.Host = h
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		cmd := hosts.Command(h, os.Args[0])
		cmd.Env = append(os.Environ(), "TREERUN_TEST_HOST="+string(text))
		out, wrong := &bytes.Buffer{}, &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, io.MultiWriter(wrong, os.Stderr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands, outputs = append(commands, cmd), append(outputs, out)
	}
	all := &network.Findings{}
	for h, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", names[h], err)
		}
		var r hostResult
		if err := json.Unmarshal(outputs[h].Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", names[h], err)
		}
		all.Add(&r.Findings)
	}
	n, err := network.Infer(names, all)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(n.Text(0))
	return n
}

// payload is the part of a link's rate that TCP leaves.
const tcpPayload = 0.956

// wrong names the values of n that are far from the rates for which the links were made, in Mbit/s. Any other work of
// the machine slows processes down, but not links.
func wrong(n *network.Network, pair func(a, b int) float64, port func(h int) float64) (list []string) {
	off := func(what string, got, mbits float64) {
		if want := mbits / 8000 * tcpPayload; got > 1.1*want || got < want/1.25 {
			list = append(list, fmt.Sprintf("%s: %.4g GB/s, want %.4g", what, got, want))
		}
	}
	for _, p := range n.Graph.Links {
		off(fmt.Sprintf("pair %d-%d", p.A, p.B), p.GBytesPerSecond, pair(p.A, p.B))
	}
	for h := range n.Hosts {
		i := slices.IndexFunc(n.Graph.Ports, func(p topo.Port) bool { return p.Ranks[0] == h })
		switch want := port(h); {
		case (i >= 0) != (want > 0):
			list = append(list, fmt.Sprintf("host %d has a port: %v, want %v", h, i >= 0, want > 0))
		case i >= 0:
			off(fmt.Sprintf("port of host %d", h), n.Graph.Ports[i].GBytesPerSecond, want)
		}
	}
	return list
}

// Shaped links between hosts come out as they were made: an even switch, cards
// of different rates, and a mesh in which every pair has its own link. On a busy
// machine a second or third look may be necessary.
func TestShapedHosts(t *testing.T) {
	for _, c := range []struct {
		name    string
		options nethosts.Options
		pair    func(a, b int) float64
		port    func(h int) float64
	}{
		{"even", nethosts.Options{Networks: []nethosts.Network{{Rates: []string{"60mbit"}}}},
			func(a, b int) float64 { return 60 }, func(h int) float64 { return 60 }},
		{"cards", nethosts.Options{Networks: []nethosts.Network{{Rates: []string{"160mbit", "80mbit", "40mbit"}}}},
			func(a, b int) float64 { return []float64{160, 80, 40}[b] }, func(h int) float64 { return []float64{0, 80, 40}[h] }},
		{"mesh", nethosts.Options{Networks: []nethosts.Network{{Mesh: [][]string{{"-", "80mbit", "40mbit"},
			{"80mbit", "-", "20mbit"}, {"40mbit", "20mbit", "-"}}}}},
			func(a, b int) float64 { return []float64{0, 80, 40, 20}[a+b] }, func(h int) float64 { return 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			hosts := nethosts.Up(t, 3, c.options)
			const tries = 4
			for try := 1; ; try++ {
				bad := wrong(measureHosts(t, hosts, network.Quick), c.pair, c.port)
				if len(bad) == 0 {
					return
				}
				if try == tries {
					t.Fatalf("after %d measurements: %q", try, bad)
				}
			}
		})
	}
}
