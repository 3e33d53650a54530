package omni

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
	"github.com/treerun/treerun/internal/kernel"
)

var rewrite = flag.Bool("rewrite", false,
	"write what comes out to the files in testdata; commit only what you understand")

// A file in testdata has lines that begin with # and say what it shows, a line
// "streams S columns C" with "full" where first blocks that are zero
// are sent, a line of dots and letters per worker, a block each, where a letter is
// one that is not zero, and then every packet in the order in which it is sent.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, want, _ := strings.Cut(string(text), "\n---\n")
		got := traced(t, head)
		if *rewrite {
			if err := os.WriteFile(file, []byte(head+"\n---\n"+got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != want {
			t.Errorf("%s: packets are\n%s\nwant\n%s", file, got, want)
		}
	}
}

func traced(t *testing.T, head string) string {
	t.Helper()
	var s Shape
	var rows []string
	for line := range strings.Lines(head) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "streams"):
			if _, err := fmt.Sscanf(line, "streams %d columns %d", &s.Streams, &s.Columns); err != nil {
				t.Fatal(err)
			}
			s.Compact = !strings.Contains(line, "full")
		default:
			rows = append(rows, line)
		}
	}
	x := &tensors{Tensors: sparsetest.New(len(rows), block.Grid{Elements: len(rows[0]), Size: 1}, kernel.Sum,
		kernel.Uint8)}
	for w, row := range rows {
		for b := range row {
			if row[b] != '.' {
				x.PutBits(w, b, true, 1<<w)
			}
		}
	}
	s.Grid, s.DType, s.Op, s.Workers, s.Aggregators = x.Grid, x.DType, x.Op, len(rows), 1
	x.shape = s
	c := newCluster(len(rows), 1)
	c.begin(t, x, false)
	var out strings.Builder
	queue := [][]byte{}
	say := func(w, stream int) {
		p := c.compose(t, &s, w, stream)
		fmt.Fprintf(&out, "worker %d %s\n", w, describe(&s, p, c.workers[w].at))
		queue = append(queue, p)
	}
	for stream := range s.Live() {
		for w := range c.workers {
			say(w, stream)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		stream := int(binary.LittleEndian.Uint16(queue[0]))
		before := append([]int32(nil), c.workers[0].at...)
		answer, err := c.aggregators[0].Handle(queue[0])
		if err != nil {
			t.Fatal(err)
		}
		if answer.Packet == nil {
			continue
		}
		fmt.Fprintf(&out, "  result %s\n", describe(&s, answer.Packet, before))
		for w := range c.workers {
			step, err := c.workers[w].Handle(answer.Packet)
			if err != nil {
				t.Fatal(err)
			}
			if step.Send {
				say(w, stream)
			}
		}
	}
	c.check(t, x)
	return out.String()
}

// describe writes a packet: per column its block with the value, or 0, and what is
// next. at has the block of every column.
func describe(s *Shape, p []byte, at []int32) string {
	h, err := Decode(p)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("stream %d round %d:", h.Stream, h.Round)
	from := h.Stream * s.Columns
	var r reader
	list, err := r.entries(s, &h, p, at[from:from+s.width(h.Stream)])
	if err != nil {
		return err.Error()
	}
	for _, e := range list {
		value, next := "zero", fmt.Sprint(e.next)
		if e.data != nil {
			value = fmt.Sprintf("%03b", e.data[0])
		}
		if e.next == none {
			next = "infinity"
		}
		text += fmt.Sprintf(" block %d is %s, next %s;", at[from+e.column], value, next)
	}
	if len(list) == 0 {
		text += " nothing;"
	}
	return strings.TrimSuffix(text, ";")
}
