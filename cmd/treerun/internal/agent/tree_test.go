//go:build linux

package agent

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Every host is in exactly one part, neighbors together, and the parts differ by
// one at most.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := make([]wire.Below, rapid.IntRange(0, 200).Draw(t, "hosts"))
		for i := range hosts {
			hosts[i].Index = i
		}
		fan := rapid.IntRange(1, 40).Draw(t, "fan")
		parts := split(hosts, fan)
		if len(parts) != min(fan, len(hosts)) {
			t.Fatalf("%d parts", len(parts))
		}
		for _, p := range parts {
			if len(p) == 0 || len(p) > len(parts[0])+1 || len(p) < len(parts[0])-1 {
				t.Fatalf("parts of %d and %d hosts", len(parts[0]), len(p))
			}
		}
		if got := slices.Concat(parts...); !slices.Equal(got, hosts) {
			t.Fatalf("%v", got)
		}
	})
}

// A shell at the other end of ssh splits the command into the same words.
func TestSSHQuotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.StringMatching(`[a-z '"$\\*;&|<>()#~!{}\n]{0,12}`), 1, 5).Draw(t, "words")
		args := sshCommand([]string{"-v"}, "me@host", append([]string{"printf", `%s\0`}, want...))
		if at := slices.Index(args, "--"); at != len(args)-3 || args[at+1] != "me@host" {
			t.Fatalf("%q", args)
		}
		out, err := exec.Command("sh", "-c", args[len(args)-1]).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestCommand(t *testing.T) {
	f := &Tree{cfg: Config{Join: wire.Join{Start: wire.AgentOptions{Command: []string{"ip", "netns", "exec", "{host}",
		"x{host}x"}, Treerun: "/bin/treerun"}}}}
	got, err := f.command("h1")
	if want := []string{"ip", "netns", "exec", "h1", "xh1x", "/bin/treerun", Command}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	f.cfg.Join.Start = wire.AgentOptions{Treerun: "/bin/treerun"}
	got, err = f.command("h1")
	if err != nil || got[0] != "ssh" || !strings.Contains(got[len(got)-1], "/bin/treerun") {
		t.Errorf("%q, %v", got, err)
	}
}

// Hints name only remedies that remain: with --push, no hint advises --push.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		push  bool
		agent []string
		code  int
		words string
		want  string // in the hint; "": there is none
	}{
		{code: 127, words: "treerun: not found", want: "or in PATH; --push sends it there"},
		{code: 1, words: "exec: No such file or directory", want: "--push sends it there"},
		{code: 255, words: "ssh: Could not resolve hostname", want: `"ssh me@a true" must work`},
		{push: true, code: 255, words: "Permission denied (publickey)", want: `"ssh me@a true" must work`},
		{push: true, code: 127, words: "sh: mkdir: not found"},
		{push: true, code: 126, words: "sh: /proc/self/fd/4: Permission denied", want: "set TMPDIR there"},
		{push: true, code: 125, words: "mkdir: cannot create directory", want: "set TMPDIR there"},
		{push: true, agent: []string{"x"}, code: 127, words: "not found"},
		{agent: []string{"x"}, code: 127, words: "not found", want: "at /bin/treerun; --push"},
	} {
		options := wire.AgentOptions{Push: c.push, Command: c.agent, Treerun: "/bin/treerun"}
		f := &Tree{cfg: Config{Join: wire.Join{Start: options}}}
		b := newAgentConn(f, []wire.Below{{Name: "a", Target: "me@a"}})
		b.stderr.Write([]byte(c.words))
		if got := b.hint(c.code, b.stderrTail()); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("push %v, agent %q, code %d, %q: hint %q, want %q", c.push, c.agent, c.code, c.words, got, c.want)
		}
	}
}

// The stderr of a process is shown as one short line without control characters.
func TestStderrTail(t *testing.T) {
	var c agentConn
	c.stderr.Write([]byte("one\r\ntwo\x1b[31m\n\n  thr\u009bee\u0085\xff \nfour\n"))
	if got := c.stderrTail(); got != "two[31m; three?; four" {
		t.Errorf("%q", got)
	}
	c.stderr.Write([]byte(strings.Repeat("x", 100<<10)))
	if got := c.stderrTail(); len(got) > 10<<10 {
		t.Errorf("%d bytes are kept", len(got))
	}
}
