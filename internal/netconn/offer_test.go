package netconn

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawOffer(t *rapid.T) offer {
	if rapid.Bool().Draw(t, "failed") {
		return offer{failed: rapid.StringMatching(`[a-z ]{1,40}`).Draw(t, "reason")}
	}
	o := offer{settings: settings{rapid.Uint16().Draw(t, "streams"), rapid.Bool().Draw(t, "encrypt"), rapid.Uint32().Draw(t, "epoch")}}
	copy(o.host[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "host"))
	for range rapid.IntRange(0, maxPlaces).Draw(t, "places") {
		addr := netip.AddrFrom4([4]byte(append([]byte{10}, rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "v4")...)))
		if rapid.Bool().Draw(t, "6") {
			addr = netip.AddrFrom16([16]byte(append([]byte{0xfd}, rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "v6")...)))
		}
		o.places = append(o.places, place{addr: addr, port: rapid.Uint16Min(1).Draw(t, "port"), device: rapid.StringMatching(`[a-z0-9.]{0,15}`).Draw(t, "device")})
	}
	return o
}

func TestOffersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOffer(t)
		b := o.encode()
		got, err := decodeOffer(b)
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("%+v became %+v, %v", o, got, err)
		}
		if o.failed != "" {
			return // any end of a reason is a reason
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
	good := offer{settings: settings{streams: 2}}
	other := offer{settings: settings{streams: 3}}
	bad := offer{failed: "no such device\x1b[31m"}
	for _, c := range []struct {
		blobs [][]byte
		want  string
	}{
		{[][]byte{good.encode(), good.encode()}, ""},
		{[][]byte{good.encode()}, "1 blobs for 2 ranks"},
		{[][]byte{good.encode(), other.encode()}, "rank 1 has other settings than rank 0: {streams:3 "},
		{[][]byte{bad.encode(), good.encode()}, "rank 0: no such device?[31m"},
		{[][]byte{good.encode(), {9, 9}}, "rank 1: its list of addresses has version 9"},
		{[][]byte{good.encode(), nil}, "rank 1: what it offers is no list of addresses"},
	} {
		_, err := decodeOffers(c.blobs, 2)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	var many [][]byte
	for range 1000 {
		many = append(many, bad.encode())
	}
	if _, err := decodeOffers(many, 1000); err == nil || !strings.Contains(err.Error(), "; and 968 more") || len(err.Error()) > 3000 {
		t.Errorf("error %v", err)
	}
}

func FuzzOffer(f *testing.F) {
	o := offer{settings: settings{2, true, 7}, places: []place{{addr: netip.MustParseAddr("10.0.0.1"), port: 77, device: "eth0"}, {addr: netip.MustParseAddr("fd00::1"), port: 78}}}
	f.Add(o.encode())
	o = offer{failed: "no address"}
	f.Add(o.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffer(b)
		if err != nil {
			return
		}
		again, err := decodeOffer(o.encode())
		if err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%q was read as %+v, and that as %+v, %v", b, o, again, err)
		}
		for _, p := range o.places {
			if !p.addr.IsValid() || p.port == 0 || strings.ContainsAny(p.device, "\x00\x1b") {
				t.Errorf("place %+v", p)
			}
		}
	})
}

func drawReport(t *rapid.T, from, size int) report {
	var r report
	n := rapid.IntRange(0, 5).Draw(t, "pairs")
	for range n {
		p := failedPair{from: from, to: rapid.IntRange(0, size-1).Draw(t, "to")}
		for range rapid.IntRange(0, maxTries).Draw(t, "tries") {
			p.tries = append(p.tries, try{
				rapid.SampledFrom([]int{0, 1, none}).Draw(t, "own"), rapid.SampledFrom([]int{0, 3, none}).Draw(t, "their"),
				rapid.SampledFrom([]string{"connection refused", "timeout", "no route to host"}).Draw(t, "reason"),
			})
		}
		r.pairs = append(r.pairs, p)
	}
	r.total = n + rapid.IntRange(0, 3).Draw(t, "more")
	return r
}

func TestReportsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t, 2, 10)
		b := r.encode()
		got, err := decodeReport(b, 2, 10)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
		for n := range len(b) {
			if _, err := decodeReport(b[:n], 2, 10); err == nil {
				t.Fatalf("%d of %d bytes are a report, too", n, len(b))
			}
		}
	})
}

// A rank that reaches nobody, each for another reason, says so in a few
// thousand bytes.
func TestReportsAreBounded(t *testing.T) {
	const size = 10_000
	var r report
	for to := 1; to < size; to++ {
		p := failedPair{to: to}
		for i := range maxPaths {
			p.tries = append(p.tries, try{i, i, strings.Repeat(fmt.Sprint(to, i), 100)})
		}
		r.pairs = append(r.pairs, p)
		r.total++
	}
	b := r.encode()
	got, err := decodeReport(b, 0, size)
	if err != nil || got.total != size-1 || len(got.pairs) != maxPairs || len(b) > 8000 {
		t.Errorf("%d bytes, %d pairs of %d, %v", len(b), len(got.pairs), got.total, err)
	}
}

func FuzzReport(f *testing.F) {
	r := report{total: 3, pairs: []failedPair{{from: 1, to: 2, tries: []try{{0, 1, "connection refused"}, {none, none, "timeout"}}}}}
	f.Add(r.encode())
	f.Add((&report{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReport(b, 1, 5)
		if err != nil {
			return
		}
		again, err := decodeReport(r.encode(), 1, 5)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%q was read as %+v, and that as %+v, %v", b, r, again, err)
		}
		// Whatever it says, it can be told to people.
		offers := make([]offer, 5)
		if err := unreachable([]report{r}, offers, func(int) string { return "" }); err != nil && bytes.ContainsAny([]byte(err.Error()), "\x00\x1b") {
			t.Errorf("%q", err)
		}
	})
}
