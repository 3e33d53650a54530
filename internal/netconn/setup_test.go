//go:build linux

package netconn

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/strict"
)

func drawOffer(t *rapid.T) offer {
	o := offer{Settings: settings{
		rapid.Bool().Draw(t, "encrypt"),
		rapid.IntRange(0, 1<<32).Draw(t, "epoch"), Digest(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "use")),
	}}
	copy(o.Host[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "host"))
	for range rapid.IntRange(0, maxPlaces).Draw(t, "places") {
		addr := netip.AddrFrom4([4]byte(append([]byte{10}, rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "v4")...)))
		if rapid.Bool().Draw(t, "6") {
			addr = netip.AddrFrom16([16]byte(append([]byte{0xfd}, rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "v6")...)))
		}
		o.Places = append(o.Places, place{Addr: addr, Port: rapid.Uint16Min(1).Draw(t, "port"),
			Device: rapid.StringMatching(`[a-z0-9.]{0,15}`).Draw(t, "device")})
	}
	return o
}

func decodeOffer(b []byte) (o offer, err error) {
	if err = strict.Unmarshal(b, &o); err == nil {
		err = o.check()
	}
	return o, err
}

func TestOffersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOffer(t)
		b := strict.Marshal(o)
		got, err := decodeOffer(b)
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("%+v became %+v, %v", o, got, err)
		}
		for n := range len(b) {
			if _, err := decodeOffer(b[:n]); err == nil {
				t.Fatalf("%d of %d bytes are an offer, too", n, len(b))
			}
		}
		if _, err := decodeOffer(append(b, 0)); err == nil {
			t.Fatal("a byte too many")
		}
	})
}

func TestOffersOfAllRanks(t *testing.T) {
	good, other := offer{Settings: settings{Epoch: 2}}, offer{Settings: settings{Epoch: 3}}
	here := place{Addr: netip.MustParseAddr("10.0.0.1"), Port: 1}
	crowded := offer{Places: slices.Repeat([]place{here}, maxPlaces+1)}
	here.Device = strings.Repeat("x", maxDevice+1)
	long := offer{Places: []place{here}}
	for _, c := range []struct {
		offers []offer
		want   string
	}{
		{[]offer{good, good}, ""},
		{[]offer{good, other}, "rank 1 has other settings than rank 0: {Encrypt:false Epoch:3 "},
		{[]offer{good, crowded}, "rank 1: it offers 65 addresses, at most 64 are possible"},
		{[]offer{good, long}, "rank 1: it offers an invalid address"},
	} {
		err := checkOffers(c.offers)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func FuzzOffer(f *testing.F) {
	o := offer{Settings: settings{true, 7, Digest{9}},
		Places: []place{{Addr: netip.MustParseAddr("10.0.0.1"), Port: 77, Device: "eth0"},
			{Addr: netip.MustParseAddr("fd00::1"), Port: 78}}}
	f.Add(strict.Marshal(o))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffer(b)
		if err != nil {
			return
		}
		again, err := decodeOffer(strict.Marshal(o))
		if err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%q was read as %+v, and that as %+v, %v", b, o, again, err)
		}
		for _, p := range o.Places {
			if !p.Addr.IsValid() || p.Port == 0 || strings.ContainsAny(p.Device, "\x00\x1b") {
				t.Errorf("place %+v", p)
			}
		}
	})
}

func noHost(int) string { return "" }

func drawReport(t *rapid.T, size int) Report {
	var r Report
	for range rapid.IntRange(0, 5).Draw(t, "pairs") {
		reason := rapid.SampledFrom([]string{"connection refused", "timeout", "no route to host"}).Draw(t, "reason")
		r.Add(1, rapid.IntRange(0, size-1).Draw(t, "to"), noHost, []Try{{Reason: reason}})
	}
	r.Total += rapid.IntRange(0, 3).Draw(t, "more")
	return r
}

func TestReportsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t, 10)
		b := strict.Marshal(r)
		got, err := DecodeReport(b, 10)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
		for n := range len(b) {
			if _, err := DecodeReport(b[:n], 10); err == nil {
				t.Fatalf("%d of %d bytes are a report, too", n, len(b))
			}
		}
	})
}

// A report with ranks that do not exist, or with unprintable text, is refused.
func TestReportsThatMakeNoSense(t *testing.T) {
	for name, spoil := range map[string]func(r *Report){
		"total":    func(r *Report) { r.Total = 0 },
		"too many": func(r *Report) { r.Total = 10 },
		"rank":     func(r *Report) { r.Pairs[0].To = 10 },
		"escape":   func(r *Report) { r.Pairs[0].Reason = "\x1b[2J" },
		"text":     func(r *Report) { r.Pairs[0].Text = "\x1b[2J" },
		"long":     func(r *Report) { r.Pairs[0].Reason = strings.Repeat("x", maxReason+1) },
		"line":     func(r *Report) { r.Pairs[0].Text = strings.Repeat("x", maxText+1) },
	} {
		var r Report
		r.Add(1, 3, noHost, []Try{{Reason: "timeout"}})
		if _, err := DecodeReport(strict.Marshal(r), 10); err != nil {
			t.Fatal(err)
		}
		if spoil(&r); name != "" {
			if _, err := DecodeReport(strict.Marshal(r), 10); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// The report of a rank that reaches no other rank, each for another reason, takes some ten thousand bytes.
func TestReportsAreBounded(t *testing.T) {
	const size = 10_000
	var r Report
	for to := 1; to < size; to++ {
		reason := strings.Repeat(fmt.Sprint(to), 1000)
		r.Add(0, to, noHost, []Try{{Reason: reason}})
	}
	b := strict.Marshal(r)
	got, err := DecodeReport(b, size)
	if err != nil || got.Total != size-1 || len(got.Pairs) != maxPairs || len(b) > 60_000 {
		t.Errorf("%d bytes, %d pairs of %d, %v", len(b), len(got.Pairs), got.Total, err)
	}
}

func FuzzReport(f *testing.F) {
	r := Report{Total: 2}
	f.Add(strict.Marshal(r))
	r.Add(1, 2, noHost, []Try{{Reason: "connection refused"}})
	f.Add(strict.Marshal(r))
	f.Add([]byte("\x94\x02\x01\xdd\xff\xff\xff\xff\x90"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReport(b, 5)
		if err != nil {
			return
		}
		again, err := DecodeReport(strict.Marshal(r), 5)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%q was read as %+v, and that as %+v, %v", b, r, again, err)
		}
		// Any text in it must be printable.
		if err := Unreachable([]Report{r}, func(int) string { return "" }, "--iface", "--port-range"); err != nil &&
			bytes.ContainsAny([]byte(err.Error()), "\x00\x1b") {
			t.Errorf("%q", err)
		}
	})
}

// No process listens at addresses such as these.
func TestAddressesThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"10.0.0.1", "fd77::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0"} {
		a := netip.MustParseAddr(text)
		good := !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() && a.Zone() == ""
		_, err := decodeOffer(strict.Marshal(offer{Places: []place{{Addr: a, Port: 1}}}))
		if good != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
