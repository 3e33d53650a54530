package iface

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/job"
)

var rewrite = flag.Bool("rewrite", false, "write what Choose answers into testdata; commit only what you understand")

// Scenarios are text files. "host" begins a host, "device NAME KIND up|down SPEED ADDRESS..." adds a device to it,
// "choose SPEC" calls Choose; the indented lines below are the expected result. A device's kind is a fact such as
// "hardware", "loopback", "infiniband", "tun" or "-": the name decides the rest.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var devices []Device
		asked := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "\t") {
				continue // an expected result
			}
			out.WriteString(line)
			f := strings.Fields(line)
			switch {
			case len(f) == 0 || strings.HasPrefix(line, "#"):
			case f[0] == "host":
				devices = nil
			case f[0] == "device":
				devices = append(devices, parseDevice(t, f[1:]))
			case f[0] == "choose":
				asked++
				out.WriteString(answer(devices, strings.Join(f[1:], " ")))
			default:
				t.Fatalf("%s: %s", path, line)
			}
		}
		if asked == 0 {
			t.Errorf("%s has no cases", path)
		}
		if *rewrite {
			if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if out.String() != string(text) {
			t.Errorf("%s: Choose answers\n%s", path, out.String())
		}
	}
}

func parseDevice(t *testing.T, f []string) Device {
	var known facts
	switch f[1] {
	case "hardware":
		known.hardware = true
	case "loopback":
		known.loopback = true
	case "infiniband":
		known.hardware, known.hardwareType = true, typeInfiniBand
	case "tun":
		known.tunTap = true
	case "wireguard":
		known.devType = "wireguard"
	case "bond", "vlan":
		known.devType = f[1]
	case "-":
	default:
		t.Fatalf("kind %s", f[1])
	}
	d := Device{Name: f[0], Kind: kindOf(f[0], known), Up: f[2] == "up"}
	d.Speed, _ = strconv.Atoi(f[3])
	for _, a := range f[4:] {
		d.Addrs = append(d.Addrs, netip.MustParsePrefix(a))
	}
	return d
}

func answer(devices []Device, text string) string {
	spec, err := Parse(text)
	if err != nil {
		return fmt.Sprintf("\tno list: %v\n", err)
	}
	offered, left, err := Choose(devices, spec)
	var out strings.Builder
	for i, a := range offered {
		fmt.Fprintf(&out, "\t%d. %v\n", i+1, a)
	}
	if err != nil {
		fmt.Fprintf(&out, "\terror: %v\n", err)
	}
	for _, a := range left {
		if a.Why == "is not selected" {
			continue
		}
		fmt.Fprintf(&out, "\tnot %v\n", a)
	}
	return out.String()
}

// For any host and any Spec, each address is either offered or left out, once; an address that reaches only this host
// is offered alone.
func TestEveryAddressIsOfferedOrLeftOut(t *testing.T) {
	names := []string{"lo", "eth0", "eth1", "docker0", "wg0", "ib0", "bond0"}
	addrs := []string{"127.0.0.1/8", "::1/128", "10.0.0.1/24", "10.1.0.1/16", "fe80::1/64", "fd00::1/64", "169.254.3.4/16",
		"0.0.0.0/0"}
	specs := []string{"", "eth", "=eth0,eth1", "^docker", "10.0.0.0/8", "^fd00::/8", "lo", "eth1,eth0,^10.1.0.0/16"}
	rapid.Check(t, func(t *rapid.T) {
		var devices []Device
		usableAddrs := 0
		for range rapid.IntRange(0, 6).Draw(t, "devices") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			d := Device{Name: name, Kind: kindOf(name, facts{loopback: name == "lo"}),
				Up: rapid.IntRange(0, 4).Draw(t, "down") > 0}
			for range rapid.IntRange(0, 3).Draw(t, "addresses") {
				p := netip.MustParsePrefix(rapid.SampledFrom(addrs).Draw(t, "address"))
				d.Addrs = append(d.Addrs, p)
				if usable(p.Addr()) {
					usableAddrs++
				}
			}
			devices = append(devices, d)
		}
		spec, err := Parse(rapid.SampledFrom(specs).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		offered, left, err := Choose(devices, spec)
		if len(offered)+len(left) != usableAddrs || (err != nil) != (len(offered) == 0) {
			t.Fatalf("%v of %s: offered %v, left out %v, error %v", spec, List(devices), offered, left, err)
		}
		for _, a := range slices.Concat(offered, left) {
			if a.Why == "" && !slices.Contains(offered, a) {
				t.Fatalf("%v is left out without a reason", a)
			}
		}
		for _, a := range offered {
			if !spec.Selects() && a.IP.IsLoopback() != offered[0].IP.IsLoopback() {
				t.Fatalf("%v: the loopback among others: %v", spec, offered)
			}
			if spec.excludes(a.Device, a.IP) || spec.Selects() && spec.place(a.Device, a.IP) < 0 {
				t.Fatalf("%v is offered against %v", a, spec)
			}
		}
	})
}

// TestMost: of any number of addresses at most 64 are offered, in order; the best is among them, one of each network
// goes before a second one, and Surplus counts the others by device.
func TestMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []Device
		total, networks := 0, 0
		for d := range rapid.IntRange(1, 12).Draw(t, "devices") {
			device := Device{Name: fmt.Sprint("eth", d), Kind: Ethernet, Up: true}
			device.Speed = rapid.IntRange(1, 3).Draw(t, "speed")
			for k := range rapid.IntRange(1, 8).Draw(t, "networks") {
				networks++
				for i := range rapid.IntRange(1, 20).Draw(t, "addresses") {
					a := netip.AddrFrom4([4]byte{10, byte(d), byte(k), byte(i + 1)})
					device.Addrs = append(device.Addrs, netip.PrefixFrom(a, 24))
					total++
				}
			}
			devices = append(devices, device)
		}
		offered, left, err := Choose(devices, Spec{})
		if err != nil || len(offered) != min(total, job.MaxAddresses) || len(offered)+len(left) != total {
			t.Fatalf("%d of %d offered, %d left out, %v", len(offered), total, len(left), err)
		}
		of := map[string]int{}
		fastest := 0
		for _, a := range offered {
			of[fmt.Sprint(a.IP.AsSlice()[:3])]++
			fastest = max(fastest, a.Speed)
		}
		if len(of) != min(networks, job.MaxAddresses) {
			t.Fatalf("addresses of %d networks of %d", len(of), networks)
		}
		slower := func(a, b Address) int { return b.Speed - a.Speed }
		if offered[0].Speed != fastest || !slices.IsSortedFunc(offered, slower) {
			t.Fatalf("the order is %v", offered)
		}
		counted := 0
		for _, part := range strings.Split(Surplus(left), ", ") {
			n, device := 0, ""
			if _, err := fmt.Sscanf(part, "%d of %s", &n, &device); err != nil && len(left) > 0 {
				t.Fatalf("%q", part)
			}
			counted += n
		}
		if counted != len(left) {
			t.Fatalf("%q counts %d of %d", Surplus(left), counted, len(left))
		}
	})
}

// A list that can be parsed prints itself, and never selects an address that it excludes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "eth0", "=eth0,eth1", "^docker,lo", "^=br0,10.0.0.0/8", "fd00::/8", "::ffff:10.0.0.1",
		",", "10.0.0.0/99", "fe80::1%eth0"} {
		f.Add(s)
	}
	host := []Device{
		{Name: "lo", Kind: Loopback, Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
		{Name: "eth0", Kind: Ethernet, Up: true,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24"), netip.MustParsePrefix("fe80::3/64")}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if s.String() != text || (text == "") != (len(s.items) == 0) {
			t.Fatalf("%q is read as %+v", text, s)
		}
		offered, left, err := Choose(host, s)
		if len(offered)+len(left) != 3 || (err == nil) == (len(offered) == 0) {
			t.Fatalf("%q: %v, %v, error %v", text, offered, left, err)
		}
	})
}

// Read returns the devices that the system reports: at least a loopback that is recognized, if it is up.
func TestReadFindsThisHostsDevices(t *testing.T) {
	devices, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		for _, p := range d.Addrs {
			if p.Addr().IsLoopback() != (d.Kind == Loopback) {
				t.Errorf("%s has %v, and is of kind %v", d.Name, p, d.Kind)
			}
		}
	}
	if len(devices) == 0 {
		t.Error("no devices")
	}
}
