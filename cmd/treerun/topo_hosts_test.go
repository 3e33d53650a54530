//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/topo"
)

// runTopoOn runs topo from host 0 and returns its output.
func runTopoOn(t *testing.T, h *nethosts.Hosts, launcher string, args ...string) string {
	t.Helper()
	cmd := h.Command(0, launcher, append([]string{"topo", "--launch-agent", h.Agent()}, args...)...)
	cmd.Env = os.Environ()
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil || wrong.Len() > 0 {
		t.Fatalf("topo %v: %v\n%s", args, err, &wrong)
	}
	return string(out)
}

// topo -H measures the network between hosts, even with a cached result, caches the result for
// later jobs, and shows it in every form; with --probe off it shows the cached
// result, in any order of the hosts, and without one it reports
// that nothing was measured.
func TestTopoOfHosts(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "topo", Networks: []nethosts.Network{{Rates: []string{"80mbit"}}}})
	launcher := namedTreerun(t)

	const hosts, turned = "topo0:2,topo1:1,topo2:1", "topo2:1,topo0:2,topo1:1"
	if text := runTopoOn(t, h, launcher, "-H", hosts, "--probe", "off"); !strings.Contains(text,
		"network of 3 hosts: declared, nothing was measured") {
		t.Errorf("nothing was kept:\n%s", text)
	}
	var g *topo.Graph
	text := runTopoOn(t, h, launcher, "-H", hosts, "-f", "json")
	g, err := topo.ParseGraph([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if g.Ranks != 4 || len(g.Ports) != 3 {
		t.Errorf("measured\n%v", g)
	}
	for _, l := range g.Links {
		if l.Source != topo.Measured || l.LatencyUs <= 0 {
			t.Errorf("link %+v", l)
		}
		if g.Hosts[l.A] != g.Hosts[l.B] && (l.Kind != topo.TCP || l.GBytesPerSecond > 0.0115) {
			t.Errorf("link %+v is quicker than the cards", l)
		}
	}
	text = runTopoOn(t, h, launcher, "-H", turned, "--probe", "off")
	for _, want := range []string{"network of 3 hosts: measured (quick) ", "topo2  topo0  topo1", "card of",
		"allreduce over trees"} {
		if !strings.Contains(text, want) {
			t.Errorf("the cached result has no %q:\n%s", want, text)
		}
	}
	text = runTopoOn(t, h, launcher, "-H", turned, "--probe", "off", "-f", "svg")
	for _, want := range []string{"network of 3 hosts: measured (quick)", ">topo0<", ">topo2<", "GB/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}

// A cached measurement is no longer used when the shaping of a host has changed, or
// when hosts of the same names and addresses are other hosts: jobs measure again, and
// topo prints the reason.
func TestTopoOfChangedHosts(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	options := nethosts.Options{Prefix: "change", Networks: []nethosts.Network{{Rates: []string{"80mbit"}}}}
	launcher := namedTreerun(t)
	const hosts, measured = "change0:1,change1:1", "network of 2 hosts: measured (quick) "
	wants := func(text string, wanted ...string) {
		t.Helper()
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("no %q:\n%s", want, text)
			}
		}
	}
	h, err := nethosts.Make(2, options)
	if err == nil {
		defer h.Close()
	} else {
		h = nethosts.Up(t, 2, options) // fails with the reason, or skips
	}
	runTopoOn(t, h, launcher, "-H", hosts)
	wants(runTopoOn(t, h, launcher, "-H", hosts, "--probe", "off"), measured)
	if out, err := h.Command(1, "tc", "qdisc", "change", "dev", "eth0", "root", "tbf", "rate", "40mbit", "burst", "32k",
		"limit", "256k").CombinedOutput(); err != nil {
		t.Fatalf("tc: %v\n%s", err, out)
	}
	const slower = `no longer holds: host change1: eth0 queueing was "tbf `
	wants(runTopoOn(t, h, launcher, "-H", hosts, "--probe", "off"), "declared, nothing was measured", slower)
	wants(runTopoOn(t, h, launcher, "-H", hosts), measured, slower)
	if text := runTopoOn(t, h, launcher, "-H", hosts, "--probe", "off"); !strings.Contains(text, measured) ||
		strings.Contains(text, "no longer") {
		t.Errorf("the latest measurement is not used:\n%s", text)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = nethosts.Up(t, 2, options)
	wants(runTopoOn(t, h, launcher, "-H", hosts), measured, "no longer holds: host change0: ", `network namespace was "`)
}

// Flags that do not go together are wrong usage.
func TestTopoOfHostsUsage(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	for args, want := range map[string]string{
		"topo -H a:1 --graph dgx1v":       "not both",
		"topo -H a:1 --hostfile f":        "give one of them",
		"topo -H a:1,b:1 --probe quickly": "want quick, full or off",
	} {
		l := startTreerun(t, nil, strings.Fields(args)...)
		l.checkEnd(64)
		if !strings.Contains(l.stderr.String(), want) {
			t.Errorf("%s: %s", args, &l.stderr)
		}
	}
}
