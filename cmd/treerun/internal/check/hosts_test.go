//go:build linux

package check

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/internal/iface"
)

// TestMain runs the test binary also as the treerun that check starts for each host, and as the rank on that host. The
// name of a host stands for its fault.
func TestMain(m *testing.M) {
	if os.Args[0] != "treerun" {
		os.Exit(m.Run())
	}
	host := ""
	for i, arg := range os.Args {
		if name, ok := strings.CutPrefix(arg, "--host="); ok {
			host = name
		}
		if arg == launch.RankName(Subcommand) {
			os.Exit(otherHost(host, os.Args[i+1:]))
		}
	}
	if os.Args[1] != "topo" || strings.Contains(host, "cut") {
		fmt.Fprintln(os.Stderr, "treerun: 2 pairs of ranks cannot connect:", os.Args)
		os.Exit(125)
	}
	os.Exit(0)
}

func otherHost(name string, args []string) int {
	if why := map[string]string{
		"down": "treerun: start treerun on host down: ssh exited with code 255: Connection refused (hint: ...)",
		"old":  "treerun: start treerun on host old: treerun there is v1, and here v2: they are different builds",
	}[name]; why != "" {
		fmt.Fprintln(os.Stderr, why)
		return 125
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	h := healthy()
	h.Devices, h.Machine, h.Kernel = noGPU().Devices, noGPU().Machine, noGPU().Kernel
	switch name {
	case "few":
		limit(func(l *Limits) { l.Files = 300 })(h)
	case "user@one":
		limit(func(l *Limits) { l.Processes = 1030 })(h)
	case "jumbo":
		devices(iface.Device{Name: "eth0", Kind: iface.Ethernet, Up: true, Speed: 10000, MTU: 9000,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.4/24")}})(h)
	case "other":
		devices(iface.Device{Name: "e1nv", Kind: iface.Ethernet, Up: true, Speed: 10000, MTU: 1500,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.4/24")}})(h)
	case "nonet":
		devices(loopback)(h)
	case "noise":
		fmt.Println("no JSON")
		return 0
	case "ahead":
		return runWithClock(h, args, 5*time.Second)
	}
	if err := Serve(h, args); err != nil {
		return 1
	}
	return 0
}

// runWithClock runs Serve as a host whose clock is ahead of others by much.
func runWithClock(h *System, args []string, much time.Duration) int {
	out := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		return 1
	}
	os.Stdout = w
	go func() {
		if Serve(h, args) == nil {
			w.Close()
		}
	}()
	for s := bufio.NewScanner(r); s.Scan(); {
		line := s.Text()
		if now, err := strconv.ParseInt(line, 10, 64); err == nil {
			line = strconv.FormatInt(now+int64(much), 10)
		}
		fmt.Fprintln(out, line)
	}
	return 0
}

func noGPU() *System {
	h := healthy()
	for _, c := range checks() {
		if c.name == "no GPU" {
			for _, change := range c.changes {
				change(h)
			}
		}
	}
	return h
}

// TestHosts: equal lines are one line, a difference names the hosts, a host that does not answer does not hide the
// others, and a fault of the network between them counts.
func TestHosts(t *testing.T) {
	const alike = `ok     hosts          2 of 2 answer
ok     treerun        \(devel\), go1.*
none   gpu            no NVIDIA GPU .*
ok     locked memory  unlimited
ok     open files     65536, at most 1048576
ok     processes      unlimited
ok     address space  unlimited
ok     shared memory  .*
ok     cores          8
ok     network        eth0 (MTU 1500)
ok     names          192.0.2.7 is 192.0.2.7, 192.0.2.8 is 192.0.2.8
ok     clock          at most 100ms from this host's
ok     tcp            each host reaches all others
`
	for _, c := range []struct {
		name, hosts string
		code        int
		want        []string
		not         string
	}{
		{"alike", "192.0.2.7:2,192.0.2.8:2", 0, strings.Split(alike, "\n"), "note"},
		{"not as many ranks", "192.0.2.7:3,192.0.2.8:2", 0, strings.Split(alike, "\n"), "remedy"},
		{"unknown names", "a,b", 0, []string{
			"note   names          no address for a, b (remedy: one /etc/hosts"}, "names          a"},
		{"alone", "localhost", 0, []string{"ok     hosts          1 of 1 answer"}, "tcp"},
		{"down", "a,down,b", 1, []string{
			"WRONG  host           down: ssh exited with code 255: Connection refused (hint: ...)",
			"note   hosts          2 of 3 answer", "ok     tcp  "}, "note   open"},
		{"version", "a,old", 1, []string{"WRONG  host           old: treerun there is v1, and here v2: "}, "tcp"},
		{"none", "down,old", 1, []string{"note   hosts          0 of 2 answer"}, "clock"},
		{"no treerun", "a,noise", 1, []string{"WRONG  host           noise: invalid character"}, "tcp"},
		{"lower limit", "a,b,few", 0, []string{"ok     open files     a, b: 65536",
			"ok     open files     few: 300, at most 1048576\n"}, "note   open"},
		{"too low", "a,few:8", 1, []string{"ok     open files     a: 65536, at most 1048576\n",
			"WRONG  open files     few: 300, at most 1048576: about 384 for 8 ranks (remedy: ulimit -n 384)"}, ""},
		{"processes", "a,user@one:32", 1, []string{
			"WRONG  processes      one: 1030: up to 1280 for 32 ranks with threads (remedy: ulimit -u"}, ""},
		{"MTU", "a,jumbo,b", 0, []string{"ok     network        a, b: eth0 (MTU 1500)",
			"note   network        jumbo: eth0 (MTU 9000) (remedy: one MTU for"}, "WRONG"},
		{"two MTUs", "a,jumbo", 0, []string{"note   network        a: eth0 (MTU 1500) (remedy: one MTU for",
			"note   network        jumbo: eth0 (MTU 9000) (remedy: one MTU for"}, "WRONG"},
		{"names of devices", "jumbo,other,a", 0, []string{"ok     network        a: eth0 (MTU 1500)\n",
			"ok     network        other: e1nv (MTU 1500)\n", "note   network        jumbo: eth0 (MTU 9000) (remedy: one"}, ""},
		{"no network", "a,nonet", 0, []string{
			"note   network        nonet: no address for other hosts: lo 127.0.0.1/8 (remedy: switch"}, "WRONG"},
		{"clock", "a,ahead,b", 0, []string{"ok     clock          a, b: at most 100ms from this host's",
			"note   clock          ahead: +", " ms from this host's, to within ", "(remedy: chrony"}, "WRONG"},
		{"cut", "a,cut", 1, []string{"WRONG  tcp            a rank on each host fails: exit status 125 (remedy: "}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			code, err := Main(&b, []string{"-H", c.hosts}, healthy())
			if err != nil || code != c.code {
				t.Errorf("code %d, %v, want %d", code, err, c.code)
			}
			for _, want := range c.want {
				if before, _, found := strings.Cut(want, ".*"); found {
					want = strings.NewReplacer(`\(`, "(", `\)`, ")").Replace(before)
				}
				if !strings.Contains(b.String(), want) {
					t.Errorf("no %q", want)
				}
			}
			if c.not != "" && strings.Contains(b.String(), c.not) {
				t.Errorf("there is %q", c.not)
			}
			if t.Failed() {
				t.Logf("\n%s", &b)
			}
		})
	}
}

// TestFlagsOfOtherHosts: the treerun of each host gets the flags by which hosts are reached, and its own --host.
func TestFlagsOfOtherHosts(t *testing.T) {
	hosts := []launch.JobHost{{Name: "fd00::1", Target: "me@fd00::1"}, {Name: "b", Target: "b"}}
	got := strings.Join(treerun(hosts, []string{"--push=true", "--ppn=4"}, []string{"x"}).Args, " ")
	if want := "treerun --push=true --ppn=4 --host=me@[fd00::1],b --ppn=1 x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzCompare: whatever lines hosts send, each is written once, or with the hosts that have it.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`[{"State":0,"What":"x","Text":"y"}]`), []byte(`[]`))
	f.Add([]byte(`[{"What":"x","Same":"y"},{"What":"x","Same":"z"}]`), []byte(`[{"What":"x","Same":"y","Text":"y"}]`))
	f.Add([]byte(`[{"State":-1,"What":"x"},{"State":99,"Text":"y"}]`), []byte(`[{"State":99,"Text":"y"},null]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		answers := make([][]fact, 2)
		for i, text := range [][]byte{a, b} {
			if json.Unmarshal(text, &answers[i]) != nil {
				return
			}
		}
		var out bytes.Buffer
		compare(&printer{w: &out}, []string{"a", "b"}, answers, 2)
		for _, lines := range answers {
			for _, l := range lines {
				if !strings.Contains(out.String(), l.Text) {
					t.Errorf("no %q", l.Text)
				}
			}
		}
	})
}
