package intro

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
		{append(Append(nil, 3, ""), "rest"...), "rest", "", ""},
		{Append(nil, 3, "no\nport \x1b[2J\xff"), "", "no port ?[2J?", ""},
		{Append(nil, 3, long), "", long[:maxFailed], ""},
		{[]byte{3, 1}, "", "failed for an unknown reason", ""},
		{Append(nil, 4, ""), "", "", "has version 4, this one is 3"},
		{[]byte{3, 2}, "", "", Err.Error()},
		{[]byte{3}, "", "", Err.Error()},
		{nil, "", "", Err.Error()},
	} {
		rest, failed, err := Cut(c.in, 3)
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
		b := AppendAddr(nil, a)
		got, rest, err := CutAddr(append(b, "rest"...))
		if good != (err == nil) || good && (got != a || string(rest) != "rest") {
			t.Errorf("%s: %v, %q, %v", text, got, rest, err)
		}
		for n := range b {
			if _, _, err := CutAddr(b[:n]); !errors.Is(err, Err) {
				t.Errorf("%s: %d bytes: %v", text, n, err)
			}
		}
	}
}

// The error names all ranks that cannot take part, but not thousands.
func TestDecodeAll(t *testing.T) {
	decode := func(b []byte) (int, string, error) {
		if string(b) == "bad" {
			return 0, "", Err
		}
		return len(b), strings.TrimPrefix(string(b), "ok"), nil
	}
	if all, err := DecodeAll([][]byte{[]byte("ok"), []byte("ok")}, 2, decode); err != nil || fmt.Sprint(all) != "[2 2]" {
		t.Errorf("%v, %v", all, err)
	}
	_, err := DecodeAll([][]byte{[]byte("bad"), []byte("ok"), []byte("no port")}, 3, decode)
	if err == nil || err.Error() != "rank 0: "+Err.Error()+"; rank 2: no port" {
		t.Error(err)
	}
	if _, err := DecodeAll(make([][]byte, 1), 2, decode); err == nil {
		t.Error("a rank is missing, and nobody says so")
	}
	many := make([][]byte, 1000)
	for r := range many {
		many[r] = []byte("bad")
	}
	if _, err := DecodeAll(many, 1000, decode); err == nil || !strings.HasSuffix(err.Error(), "; and 968 more") {
		t.Errorf("%.80v", err)
	}
}
