package host

import (
	"strings"
	"syscall"
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

func TestKillHint(t *testing.T) {
	for _, c := range []struct {
		signal        syscall.Signal
		before, after int
		want          string
	}{
		{syscall.SIGSEGV, 1, 2, ""},
		{0, 1, 2, ""},
		{syscall.SIGKILL, 1, 2, "out of memory: "},
		{syscall.SIGKILL, 1, 1, "killed nothing for want of memory"},
		{syscall.SIGKILL, -1, -1, "out of memory?"},
	} {
		got := killHint(c.signal, c.before, c.after)
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("killHint(%v, %d, %d) = %q, want %q", c.signal, c.before, c.after, got, c.want)
		}
	}
}

func TestParseVMStat(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  -1,
		"nr_free 5\n":                       -1,
		"nr_free 5\noom_kill 17\npgfault 3": 17,
		"oom_kill 4":                        4,
		"oom_kill many\n":                   -1,
		"oom_kill -3\n":                     -1,
		"not_oom_kill 5\n":                  -1,
	} {
		if got := parseVMStat(text); got != want {
			t.Errorf("parseVMStat(%q) = %d, want %d", text, got, want)
		}
	}
}
