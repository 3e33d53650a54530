package numbers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestExpansion compares with the plainest reading of the notation: every number below 1000 that some part names.
func TestExpansion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts, want []string
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			lo, width := rapid.IntRange(0, 999).Draw(t, "lo"), rapid.IntRange(1, 4).Draw(t, "width")
			hi := rapid.IntRange(lo, lo+20).Draw(t, "hi")
			text := strconv.Itoa(lo)
			for len(text) < width {
				text = "0" + text
			}
			width = len(text)
			if hi > lo {
				parts = append(parts, fmt.Sprintf("%s-%d", text, hi))
			} else {
				parts = append(parts, text)
			}
			for n := lo; n <= hi; n++ {
				digits := strconv.Itoa(n)
				for len(digits) < width {
					digits = "0" + digits
				}
				want = append(want, "a"+digits+"b")
			}
		}
		got, err := ExpandNames("a["+strings.Join(parts, ",")+"]b", 1000)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v: %v, %v; want %v", parts, got, err, want)
		}
	})
}

func TestParseList(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-1": "[0 1]", "7,0-3": "[7 0 1 2 3]", "08-9": "[8 9]",
		"": "[]", "a": "[]", "3-1": "[]", "0-": "[]", "0,10": "[]", "0-9999999999": "[]", "-1": "[]"} {
		if got := fmt.Sprint(ParseList(text, 10)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
