package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/testutil"
)

// recorded is a job of two ranks on two hosts: rank 1 waits for rank 0, and is killed during another wait.
func recorded() *Job {
	head := record.Head{Count: 4, Places: 100, Names: []string{"", "world", "ring", "load"}}
	const second = int64(time.Second)
	call := record.Event{Kind: record.Call, Row: 1, Comm: 1, Label: 2, Peer: -1, Start: 5 * second, Took: time.Second,
		Bytes: 1 << 20, Number: 7, Predicted: time.Second / 2, Waited: time.Millisecond}
	wait := record.Event{Kind: record.Wait, Comm: 1, Label: 2, Peer: 0, Start: 15 * second, Took: time.Second / 2}
	open, again := wait, wait
	open.Flags, open.Took = record.Open, 0
	again.Start += second
	again.Flags = record.Open
	return &Job{ID: "job1", Program: "train", Args: []string{"train", "-x"}, Start: time.Unix(1e9, 0),
		Clock: 4 * second, Took: 10 * time.Second, Code: 137,
		Hosts: []Host{{Name: "a"},
			{Name: "b", Clocks: []Clock{{At: 0, Offset: 10 * second, Error: 3000}}}},
		Processes: []Process{
			{Rank: 0, Host: 0, Ended: 9 * time.Second, Recording: record.Recording{Head: head, Events: []record.Event{
				call, {Kind: record.Span, Label: 3, Peer: -1, Start: 5*second + second/2, Took: time.Second}}}},
			{Rank: 1, Host: 1, Ended: 8 * time.Second, Failed: true, Outcome: "was killed by SIGKILL",
				Recording: record.Recording{Head: head, Events: []record.Event{open, wait, again}}},
			{Rank: 1, Attempt: 1, Host: 1, Ended: 9 * time.Second, Why: "its host is lost"},
		}}
}

// log is a sink that writes lines.
type log struct{ lines []string }

func (l *log) add(format string, v ...any) { l.lines = append(l.lines, fmt.Sprintf(format, v...)) }

func (l *log) group(id int, name, label string) { l.add("group %d: %s (%s)", id, name, label) }
func (l *log) row(id, group int, name string, order int) {
	l.add("row %d of %d: %s", id, group, name)
}

func (l *log) begin(row int, at int64, name, category string, args []arg, arrows []uint64) {
	l.add("%d %.1f %s: %v %v", row, float64(at)/1e9, category, name, arrows)
}
func (l *log) end(row int, at int64) { l.add("%d %.1f end", row, float64(at)/1e9) }
func (l *log) mark(row int, at int64, name string, args []arg, arrow uint64) {
	l.add("%d %.1f mark: %s %d", row, float64(at)/1e9, name, arrow)
}

// The timeline has all events, with the times of all hosts on one clock. Slices that overlap are on two rows.
func TestWrite(t *testing.T) {
	l := new(log)
	write(l, recorded())
	want := []string{
		"group 1: treerun train (job1)", "row 1 of 1: job",
		"group 2: host a (the launcher's clock)", "group 3: host b (clock within 3µs of the launcher's)",
		"row 2 of 2: rank 0", "row 3 of 2: rank 0 (at the same time)", "row 4 of 3: rank 1",
		"row 5 of 3: rank 1, process 2",
		"2 1.0 mark: rank 1 waits for this rank 1", "2 2.0 mark: rank 1 waits for this rank 2",
		"1 0.0 job: job []", "1 8.0 mark: rank 1 was killed by SIGKILL 0", "1 10.0 end",
		"2 1.0 call: AllReduce 1 MiB []", "2 2.0 end", "3 1.5 span: load []", "3 2.5 end",
		"4 1.0 wait: waits for rank 0 [1]", "4 1.5 end", "4 2.0 wait: waits for rank 0 [2]", "4 8.0 end",
		"4 8.0 mark: was killed by SIGKILL 0",
	}
	if !slices.Equal(l.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
	}
}

// fields returns the fields of a message by their numbers.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	all := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		value := b[:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		all[number], b = append(all[number], value), b[n:]
	}
	return all
}

// The file is a message of Perfetto's form, whose packets have the events of the timeline.
func TestPerfetto(t *testing.T) {
	var b bytes.Buffer
	if err := writePerfetto(&b, recorded()); err != nil {
		t.Fatal(err)
	}
	var descriptors, names, arrows, ends int
	for _, packet := range fields(t, b.Bytes())[tracePacket] {
		p := fields(t, packet)
		descriptors += len(p[packetDescriptor])
		for _, e := range p[packetEvent] {
			event := fields(t, e)
			names += len(event[eventName])
			arrows += len(event[eventFlow])
			ends += len(event[eventFlowEnd])
			if len(event[eventTrack]) != 1 || len(event[eventType]) != 1 || len(p[packetTimestamp]) != 1 {
				t.Errorf("an event without a track, type or time: %v", event)
			}
		}
	}
	if descriptors != 8 || names != 9 || arrows != 2 || ends != 2 {
		t.Errorf("%d descriptors, %d names, %d arrows with %d ends", descriptors, names, arrows, ends)
	}
}

// protoc reads the file: every field has the number and the type that Perfetto gives it.
func TestProtoc(t *testing.T) {
	protoc, err := exec.LookPath("protoc")
	testutil.Need(t, testutil.Protoc, err)
	file := filepath.Join(t.TempDir(), "a.pftrace")
	if err := StoreTimeline(file, recorded()); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(protoc, "--decode=Trace", "-Itestdata", "trace.proto")
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := string(out)
	for _, want := range []string{`process_name: "host b"`, `thread_name: "rank 1, process 2"`, `type: TYPE_SLICE_BEGIN`,
		`name: "AllReduce 1 MiB"`, `timestamp: 1500000000`, `string_value: "ring"`, `double_value: 2`, `flow_ids: 1`,
		`terminating_flow_ids: 2`, `string_value: "not recorded: its host is lost"`, `int_value: 137`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for line := range strings.Lines(text) { // a field that protoc does not know has a number for a name
		if c := strings.TrimSpace(line); c != "" && c[0] >= '0' && c[0] <= '9' {
			t.Errorf("unknown field %s", line)
		}
	}
}

// The other form is JSON.
func TestChrome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.JSON")
	if err := StoreTimeline(file, recorded()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !json.Valid(text) || !bytes.Contains(text, []byte(`"name":"waits for rank 0"`)) {
		t.Errorf("%v in %s", err, text)
	}
}
