//go:build linux

package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// samples has one Body of each kind, with its fields set.
func samples() []Body {
	return []Body{
		&Finish{}, &RanksExited{Stuck: true}, &RanksExited{Port: 4002},
		&Join{
			Index: 3, Name: "c", Program: "./p", Path: "/p", Dir: "/d", PeerTimeout: time.Second, Verbose: true,
			Start: AgentOptions{Command: []string{"ip", "{host}"}, SSHArgs: []string{"-v"}, Treerun: "/t", Push: true, FanOut: 2,
				Timeout: time.Minute},
			Below: []Below{{4, "d", "me@d"}},
		},
		&NodeHello{
			Node: 1, Nodes: 2, Size: 4, PerNode: 2, Default: 2, Host: "b", Version: "v1", Args: []string{"p", "-x"},
			Broken: "why",
		},
		&Run{
			File: job.File{Version: job.FileVersion, JobID: "x1", Secret: bytes.Repeat([]byte{1}, job.SecretBytes), Size: 4,
				Hosts: []int{0, 1, 1, 1}, Epoch: 2, Renews: true},
			Args: []string{"p", "-x"}, Env: []string{"A=1"}, Machines: []int{0, 0},
			Parts: []Part{{1, "/p", []string{"p"}, "", nil, Share{}}, {3, "/q", []string{"q", "-v"}, "/d", []string{"B=2"},
				Share{cores.Core, 2, gpus.Request{List: "0-2"}}}},
			Cores: cores.Request{Bind: 1, MapBy: cores.L3, PerRank: 2, Oversubscribe: true,
				Slots: []cores.Slots{{Where: "f:1", List: "1:0,1"}}},
			GPUs:   gpus.Request{Bind: 1, PerGPU: 2, List: "0-3"},
			Master: "a", Port: 4000, Stdin: 1, ReportBindings: true, Again: true, Debug: []int{1, 3}, Memory: 1 << 20,
		},
		&RankMessage{Message: &job.Message{Kind: job.SeedIs, Addrs: []netip.AddrPort{netip.MustParseAddrPort("[::1]:1")}}},
		&Signal{10}, &Stream{1, Stdin, 0},
		&Push{Sum: bytes.Repeat([]byte{2}, 32)},
		&Ready{"c1", 77, 8, 4001, "b0"}, &Result{127, "not there"}, &Started{[]int{1, 2}, []int{70, 71}},
		&Stream{1, Stdout, 2}, &RankMessage{1, 2, &job.Message{Kind: job.Joined, Rank: 1}}, &RankMessage{Rank: 1},
		&Spawn{1, 2, 3}, &Last{},
		&Kill{1, 2, true, "slow", 1}, &Replace{3},
		&Fetch{Number: 4, What: FetchEvents, Rank: 2, Attempt: 1, From: 77},
		&Fetched{4, []Recorded{{Rank: 2, Attempt: 1, Why: "none"}, {Rank: 3, Events: make([]byte, 64), Next: 78,
			Head: &record.Head{Count: 77, Places: 10, Names: []string{""},
				Totals: []record.Total{{Row: 1, Size: 5, Calls: 9}}}}}, 123},
		&Look{3, []int{1, 2}, true}, &Suspect{7},
		&Seen{Number: 3, Took: 4, At: 5, Ranks: []inspect.Rank{{Rank: 2, Blind: "no page"}, {Rank: 1, Host: "b", PID: 9,
			Line: "main.main at a.go:1", Callers: []string{"main.f at a.go:2"}, Gap: 6,
			Process: inspect.Process{State: job.ProcState{Code: 'T', Signal: 19}, Memory: 1 << 20, Call: "read"},
			Waits:   []waits.Waiting{{In: "Recv", For: []int{0}, Since: 7}},
			Page: &status.Rank{Rank: 1, Size: 2, Comms: []status.Comm{{Name: "world", Size: 2, In: "Recv",
				Latest: []call.ID{{Seq: 3, Kind: call.Barrier, Root: -1}},
				Totals: []status.Total{{Call: "Barrier", Calls: 3, Waited: 1}}}}}}}},
		&Unstarted{1, 2, 126, "no"}, &RankMessage{Message: &job.Message{Kind: job.Begins, Roster: &job.Roster{
			Epoch: 1, Secret: bytes.Repeat([]byte{3}, job.SecretBytes), Members: []job.Member{{Origin: 2, Blob: []byte("at")}},
		}}},
		&Ended{[]End{{Rank: 1, PID: 9, Signal: 9, Stopped: true, ReadJobFile: true, Hint: "a limit",
			Last: &inspect.Rank{Rank: 1, PID: 9, Page: &status.Rank{Size: 2, Comms: []status.Comm{{Name: "world", Size: 2,
				Closed: true, Latest: []call.ID{{Seq: 3, Kind: call.Barrier, Root: -1}}}}}}}}},
		&Lost{[]int{3, 4}, "gone"}, &Note{"words", true}, &Result{3, "why"}, &Note{"a line", false},
	}
}

func TestFrameRoundTrip(t *testing.T) {
	seen := make(map[byte]bool)
	var all []byte
	for i, b := range samples() {
		seen[kindOf(b)] = true
		all = (&Frame{i, b}).Append(all)
	}
	if len(seen) != len(bodies)-1 {
		t.Errorf("%d of %d kinds are tried", len(seen), len(bodies)-1)
	}
	r := iotest.HalfReader(bytes.NewReader(all))
	for i, want := range samples() {
		f, err := Read(r)
		if err != nil || f.Host != i {
			t.Fatalf("frame %d, a %T: %+v, %v", i, want, f, err)
		}
		if d := cmp.Diff(want, f.Body, cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
			t.Fatalf("%T: %s", want, d)
		}
	}
	if _, err := Read(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// Bodies that no launcher and no agent of treerun sends are refused.
func TestInvalidBodies(t *testing.T) {
	for _, b := range []Body{
		&Join{}, &Join{Index: -1, Dir: "/", PeerTimeout: time.Second, Start: AgentOptions{FanOut: 1, Timeout: time.Second}},
		&Join{Dir: "/", PeerTimeout: time.Second, Start: AgentOptions{FanOut: 1, Timeout: time.Second},
			Below: []Below{{1, "a", ""}}},
		&NodeHello{}, &NodeHello{Node: 1, Default: 1, Host: "b"}, &NodeHello{Default: 1, Host: "b", Args: []string{"p"}},
		&Run{}, &Run{Args: []string{"p"}, File: job.File{Version: job.FileVersion, JobID: "x", Size: 2, Hosts: []int{0, 2}}},
		&Run{Args: []string{"p"}, Machines: []int{0},
			File: job.File{Version: job.FileVersion, JobID: "x", Secret: bytes.Repeat([]byte{1}, job.SecretBytes), Size: 2,
				Hosts: []int{0, 1}}},
		&Run{Args: []string{"p"}, Port: 70000,
			File: job.File{Version: job.FileVersion, JobID: "x", Size: 1, Hosts: []int{0}}},
		&Run{Args: []string{"p"}, Memory: -1,
			File: job.File{Version: job.FileVersion, JobID: "x", Size: 1, Hosts: []int{0}}},
		&Run{Args: []string{"p"}, Debug: []int{-1},
			File: job.File{Version: job.FileVersion, JobID: "x", Size: 1, Hosts: []int{0}}},
		&Run{Args: []string{"p"}, Parts: []Part{{Ranks: 0, Path: "/p", Args: []string{"p"}}},
			File: job.File{Version: job.FileVersion, JobID: "x", Size: 1, Hosts: []int{0}}},
		&Run{Args: []string{"p"}, Parts: []Part{{Ranks: 1, Path: "/p"}},
			File: job.File{Version: job.FileVersion, JobID: "x", Size: 1, Hosts: []int{0}}},
		&Signal{0}, &Signal{65}, &Stream{-1, 0, 0}, &Stream{0, 3, 0}, &Stream{0, -1, 0},
		&Push{}, &Ready{Cores: 1}, &Ready{Host: "a"}, &Ready{Host: "a", Cores: 1, Port: -1},
		&Result{256, ""}, &Result{1, strings.Repeat("x", maxSmall)}, &Started{[]int{1}, nil}, &Started{[]int{-1}, []int{1}},
		&RankMessage{Message: new(job.Message)}, &RankMessage{Rank: -1}, &Ended{[]End{{Rank: -1}}},
		&Ended{[]End{{Code: 300}}}, &Ended{[]End{{Attempt: -1}}}, &Ended{[]End{{Last: &inspect.Rank{Rank: -1}}}},
		&RanksExited{Port: 65536},
		&Unstarted{-1, 0, 1, ""}, &Unstarted{0, -1, 1, ""}, &Unstarted{0, 0, 256, ""},
		&Spawn{-1, 0, 0}, &Spawn{job.MaxRanks, 0, 0}, &Spawn{0, -1, 0}, &Spawn{0, 0, -1}, &Spawn{0, 0, job.MaxEpoch + 1},
		&Stream{0, 0, -1}, &RankMessage{Attempt: -1}, &RankMessage{Message: &job.Message{Kind: job.Begins}},
		&Lost{[]int{-1}, ""}, &Note{Text: strings.Repeat("x", maxSmall)},
	} {
		if got, err := Read(bytes.NewReader(frame(b).Append(nil))); err == nil {
			t.Errorf("%+.80v is taken as %+.80v", b, got.Body)
		}
	}
}

// An impossible head is refused before anything is allocated for it.
func TestInvalidHeads(t *testing.T) {
	kindFinish, kindMessage, kindJob := kindOf(&Finish{}), kindOf(&RankMessage{}), kindOf(&Run{})
	head := func(n int, kind byte, host int32) []byte {
		return binary.BigEndian.AppendUint32(strict.AppendHead(nil, kind, n), uint32(host))
	}
	for name, b := range map[string][]byte{
		"no kind": head(4, 0, 0), "unknown kind": head(4, byte(len(bodies)), 0), "too short": head(3, kindFinish, 0),
		"too long": head(4+maxSmall+1, kindOf(&Note{}), 0), "much too long": head(1<<31, kindJob, 0),
		"no host": head(4, kindFinish, -2), "far host": head(4, kindFinish, job.MaxRanks),
	} {
		if _, err := Read(io.MultiReader(bytes.NewReader(b), endless{})); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Read(bytes.NewReader(head(100, kindMessage, 0))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

// endless fails the test that reads it.
type endless struct{}

func (endless) Read([]byte) (int, error) { panic("read past a head that cannot be") }

func TestHello(t *testing.T) {
	want := Version()
	noise := "Last login: yesterday\r\nno end"
	v, line, err := ReadHello(bufio.NewReader(strings.NewReader(noise+string(Hello(AgentWord))+"rest")), AgentWord)
	if err != nil || v != want || string(line) != "Last login: yesterday\r\n" {
		t.Errorf("%v, %q, %v", v, line, err)
	}
	if _, _, err := ReadHello(bufio.NewReader(bytes.NewReader(Hello(LauncherWord))), LauncherWord); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"", "hello\n", string(Hello(AgentWord)), LauncherWord + "\n", LauncherWord + " v 1\n",
		LauncherWord + " v", LauncherWord + " " + strings.Repeat("v", 5000) + "\n", "GET / HTTP/1.1\r\n\r\n",
	} {
		if _, _, err := ReadHello(bufio.NewReader(strings.NewReader(text)), LauncherWord); err == nil {
			t.Errorf("%.40q is taken for a launcher", text)
		}
	}
	for name, r := range map[string]io.Reader{
		"end":      strings.NewReader("bash: treerun: not found\n"),
		"echo":     io.MultiReader(bytes.NewReader(Hello(LauncherWord)), endless{}),
		"too much": strings.NewReader(strings.Repeat("y\n", maxPreamble)),
	} {
		if _, _, err := ReadHello(bufio.NewReader(r), AgentWord); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if v := Version(); v == "" || strings.ContainsAny(v, " \n") {
		t.Errorf("version %q", v)
	}
	// Builds without a commit, as tests are, differ by the linker's build id: actions and contents, with slashes
	// between.
	id, err := buildID()
	if err != nil || strings.Count(id, "/") != 3 || !strings.Contains(Version(), "+build-") {
		t.Errorf("version %q of an executable with the build id %q, %v", Version(), id, err)
	}
}

// Every frame that is read without an error can be written, and is equal when it is read again.
func FuzzRead(f *testing.F) {
	for i, b := range samples() {
		f.Add((&Frame{i, b}).Append(nil))
	}
	f.Add([]byte("GET /metrics HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x10\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01\xdf\xff\xff\xff\xff"))
	f.Add([]byte("\x07\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x82\xa5Ranks\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			fr, err := Read(r)
			if err != nil {
				return
			}
			back, err := Read(bytes.NewReader(fr.Append(nil)))
			if err != nil {
				t.Fatalf("%T: written but not readable: %v", fr.Body, err)
			}
			if d := cmp.Diff(fr, back, cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
				t.Fatal(d)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(Hello(AgentWord))
	f.Add([]byte("motd\n" + AgentWord + " v\n"))
	f.Add(Hello(LauncherWord))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, line, err := ReadHello(bufio.NewReader(bytes.NewReader(data)), AgentWord); err == nil &&
			(h == "" || len(line) > maxPreamble+4096) {
			t.Fatal(h, len(line))
		}
		if _, _, err := ReadHello(bufio.NewReader(bytes.NewReader(data)), LauncherWord); err == nil &&
			!bytes.Contains(data, []byte(LauncherWord)) {
			t.Fatalf("%q is taken for a launcher", data)
		}
	})
}
