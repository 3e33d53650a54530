package membership

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the orders into testdata; commit only a diff that you understand")

// TestScenarios runs the files of testdata. A paragraph is one job: its first line describes it, the others are events,
// and the indented lines below an event are the orders that follow. Lines with # are comments.
//
//	POLICY, N ranks[, at least N][, at most N restarts]
//	rank R takes part              it has sent Renewable
//	rank R joins                   its world is complete
//	rank R renews
//	rank R closes
//	rank R is lost [with its host]
//	rank R withdraws               it lives, and waits for no other epoch
//	the time is over               in which ranks report that they take part
//	all ranks run again            after a restart
//	ranks N wanted                 a resize
//	rank R is back                 its host
//	awaited                        shows the epoch, and the ranks that it waits for
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var m *Machine
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(line, "\t"):
				continue
			case line == "":
				m = nil
			case strings.HasPrefix(line, "#"):
			case m == nil:
				m = New(describe(t, line))
			default:
				line += event(t, m, line)
			}
			out.WriteString(line + "\n")
		}
		if *rewrite {
			err = os.WriteFile(file, []byte(out.String()), 0o644)
		} else if d := cmp.Diff(string(text), out.String()); d != "" {
			t.Errorf("%s: %s", file, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// describe returns the job that a line describes.
func describe(t *testing.T, line string) Config {
	t.Helper()
	c := Config{MinSize: 1, MaxRestarts: 3}
	for i, part := range strings.Split(line, ", ") {
		var err error
		switch {
		case i == 0:
			c.Policy = map[string]Policy{"stop": Stop, "restart": Restart, "respawn": Respawn, "shrink": Shrink}[part]
		case strings.HasPrefix(part, "at least"):
			_, err = fmt.Sscanf(part, "at least %d", &c.MinSize)
		case strings.HasPrefix(part, "at most"):
			_, err = fmt.Sscanf(part, "at most %d", &c.MaxRestarts)
		default:
			_, err = fmt.Sscanf(part, "%d ranks", &c.Size)
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return c
}

// event gives m the event of a line, and returns the orders as indented lines.
func event(t *testing.T, m *Machine, line string) (text string) {
	t.Helper()
	var r int
	var orders []Order
	what := line
	if n, _ := fmt.Sscanf(line, "ranks %d", &r); n == 1 {
		what = strings.Join(strings.Fields(line)[2:], " ")
	}
	if n, _ := fmt.Sscanf(line, "rank %d", &r); n == 1 {
		what = strings.Join(strings.Fields(line)[2:], " ")
	}
	switch what {
	case "takes part":
		m.Renewable(r)
	case "joins":
		m.Joined(r)
	case "withdraws":
		m.Withdrew(r)
	case "renews":
		orders = m.Renewed(r)
	case "closes":
		orders = m.Closed(r)
	case "is lost", "is lost with its host":
		orders = m.Lost(r, what == "is lost")
	case "is back":
		orders = m.HostBack([]int{r})
	case "wanted":
		var err error
		if orders, err = m.Resize(r); err != nil {
			text += "\n\trefused: " + err.Error()
		}
	case "the time is over":
		orders = m.Expired()
	case "all ranks run again":
		m.Restarted()
	case "awaited":
		return fmt.Sprintf("\n\tepoch %d, waits for %v", m.Epoch(), m.Awaited())
	default:
		t.Fatalf("unknown event %q", line)
	}
	for _, o := range orders {
		text += "\n\t" + o.String()
	}
	return text
}
