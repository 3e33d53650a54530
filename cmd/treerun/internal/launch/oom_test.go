package launch

import (
	"strings"
	"testing"
)

func FuzzParseVMStat(f *testing.F) {
	f.Add("oom_kill 3\n")
	f.Add("pgfault 1\noom_kill 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := parseVMStat(text)
		if n < -1 || n >= 0 && !strings.Contains(text, "oom_kill ") {
			t.Fatal(n)
		}
	})
}
