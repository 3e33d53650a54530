package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// atOnce is how long a start that cannot succeed may take on a busy machine. The ranks
// of these tests would run for minutes.
const atOnce = 10 * time.Second

// limited makes treerun run after a command of the shell, such as ulimit.
func limited(command string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Path = "/bin/sh"
		c.Args = append([]string{"sh", "-c", command + ` && exec treerun "$@"`, "-"}, c.Args[1:]...)
	}
}

// refuses waits for the end of a job that could not be started, which must come at once,
// and for a line of stderr that holds all of want.
func (l *launched) refuses(want ...string) {
	l.t.Helper()
	start := time.Now()
	l.ends(125)
	if took := time.Since(start); took > atOnce {
		l.t.Errorf("it took %v to say that the job does not start", took)
	}
	l.says(want...)
}

// says looks for a line of stderr that holds all of want.
func (l *launched) says(want ...string) {
	l.t.Helper()
lines:
	for line := range strings.Lines(l.stderr.String()) {
		for _, w := range want {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return
	}
	l.t.Errorf("no line of stderr holds %q:\n%s", want, &l.stderr)
}

// A job of which some ranks cannot be started ends, with the ranks that run already:
// these would wait for the others.
func TestStartHalfWay(t *testing.T) {
	for _, rank := range [][]string{{"sleep", "300"}, {"member", "init", "sleep", "300s"}} {
		l := launch(t, limited("ulimit -n 32"), append([]string{"-v", "-np", "6"}, rank...)...)
		l.refuses("start rank ", "too many open files", "ulimit -n")
		l.says("started ", " of 6 ranks")
	}
}

// The same on one of two hosts.
func TestStartHalfWayOfHosts(t *testing.T) {
	const agent = `env FAKEHOST={host} sh -c 'if [ $FAKEHOST = b ]; then ulimit -n 32; fi; exec "$@"' -`
	l := launchHosts(t, "--launch-agent", agent, "-v", "-H", "a:3,b:6", "sleep", "300")
	l.refuses("host b: start rank", "too many open files", "ulimit -n")
	l.says(" of 9 ranks")
}
