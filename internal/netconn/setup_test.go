package netconn

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		in           []byte
		rest, failed string
		err          string
	}{
		{append(appendHead(nil, 3, ""), "rest"...), "rest", "", ""},
		{appendHead(nil, 3, "no\nport \x1b[2J\xff"), "", "no port ?[2J?", ""},
		{appendHead(nil, 3, long), "", long[:maxFailed], ""},
		{[]byte{3, 1}, "", "failed for an unknown reason", ""},
		{appendHead(nil, 4, ""), "", "", "has version 4, this one is 3"},
		{[]byte{3, 2}, "", "", errOffer.Error()},
		{[]byte{3}, "", "", errOffer.Error()},
		{nil, "", "", errOffer.Error()},
	} {
		rest, failed, err := cutHead(c.in, 3)
		if string(rest) != c.rest || failed != c.failed || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.40q: %q, %.40q, %v", c.in, rest, failed, err)
		}
	}
}

// Addresses come back as they were written; one cut off, or at which nobody listens,
// is refused.
func TestCutAddr(t *testing.T) {
	for _, text := range []string{"10.0.0.1", "fd77::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:10.0.0.1"} {
		a := netip.MustParseAddr(text)
		good := !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6()
		b := appendAddr(nil, a)
		got, rest, err := cutAddr(append(b, "rest"...))
		if good != (err == nil) || good && (got != a || string(rest) != "rest") {
			t.Errorf("%s: %v, %q, %v", text, got, rest, err)
		}
		for n := range b {
			if _, _, err := cutAddr(b[:n]); !errors.Is(err, errOffer) {
				t.Errorf("%s: %d bytes: %v", text, n, err)
			}
		}
	}
}

// The error names all ranks that cannot take part, but not thousands.
func TestDecodeAll(t *testing.T) {
	decode := func(b []byte) (int, string, error) {
		if string(b) == "bad" {
			return 0, "", errOffer
		}
		return len(b), strings.TrimPrefix(string(b), "ok"), nil
	}
	if all, err := decodeAll([][]byte{[]byte("ok"), []byte("ok")}, 2, decode); err != nil || fmt.Sprint(all) != "[2 2]" {
		t.Errorf("%v, %v", all, err)
	}
	_, err := decodeAll([][]byte{[]byte("bad"), []byte("ok"), []byte("no port")}, 3, decode)
	if err == nil || err.Error() != "rank 0: "+errOffer.Error()+"; rank 2: no port" {
		t.Error(err)
	}
	if _, err := decodeAll(make([][]byte, 1), 2, decode); err == nil {
		t.Error("a rank is missing, and nobody says so")
	}
	many := make([][]byte, 1000)
	for r := range many {
		many[r] = []byte("bad")
	}
	if _, err := decodeAll(many, 1000, decode); err == nil || !strings.HasSuffix(err.Error(), "; and 968 more") {
		t.Errorf("%.80v", err)
	}
}
