package iface

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"
)

// The facts of the system do not change by themselves, and belong to this boot.
func TestFactsStay(t *testing.T) {
	first := Facts(nil)
	if first["network namespace"] == "" {
		t.Errorf("no network namespace in %v", first)
	}
	if again := Facts(nil); !maps.Equal(first, again) {
		t.Errorf("%v, and then %v", first, again)
	}
}

// A device counts if it has an offered address, regardless of its kind, or if it may carry data to other hosts although
// another device has the address.
func TestWhichDevicesCount(t *testing.T) {
	at := netip.MustParsePrefix("10.1.2.3/24")
	for _, c := range []struct {
		d     Device
		flags net.Flags
		want  bool
	}{
		{Device{Kind: Ethernet}, net.FlagUp, true},
		{Device{Kind: Unknown}, net.FlagUp, true},
		{Device{Kind: Ethernet}, 0, false},
		{Device{Kind: Container}, net.FlagUp, false},
		{Device{Kind: Tunnel}, net.FlagUp, false},
		{Device{Kind: Loopback}, net.FlagUp, false},
		{Device{Kind: Container, Addrs: []netip.Prefix{at}}, net.FlagUp, true},
		{Device{Kind: Loopback, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}, net.FlagUp, false},
	} {
		if got := c.d.counts(c.flags, []netip.Addr{at.Addr()}); got != c.want {
			t.Errorf("%+v with %v: %v, want %v", c.d, c.flags, got, c.want)
		}
	}
}

// The facts of a host with very many devices are as short as those of others, and still change with each device.
func TestFactsOfManyDevices(t *testing.T) {
	many := func(speed string) map[string]string {
		facts := map[string]string{"boot": "b", "network namespace": "1"}
		for i := range 300 {
			facts[fmt.Sprintf("eth%d speed", i)] = speed
		}
		return short(facts)
	}
	one, other := many("1000 Mbit/s"), many("100 Mbit/s")
	if len(one) != 3 || one["boot"] != "b" || one["devices"] == other["devices"] || !maps.Equal(one, many("1000 Mbit/s")) {
		t.Errorf("%v and %v", one, other)
	}
}
