package shm

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// The tests across processes run the test binary again, once per rank, with these variables. A child communicates with
// its parent over its standard input and output, one line each way: hexadecimal blobs for the exchanges, then the lines
// of its part.
const (
	envPart = "TREERUN_SHM_TEST_PART"
	envRank = "TREERUN_SHM_TEST_RANK"
	envArg  = "TREERUN_SHM_TEST_ARG"
)

// part is the program of a child with its endpoint. It sends lines to the parent and waits for the parent's.
type part struct {
	layout func(arg string) transport.Layout
	run    func(c *child, arg string) error
}

// child is the child's side.
type child struct {
	e    transport.Endpoint
	rank int
	in   *bufio.Reader
}

func (c *child) say(format string, a ...any) { fmt.Printf(format+"\n", a...) }

func (c *child) hear() (string, error) {
	s, err := c.in.ReadString('\n')
	return strings.TrimSpace(s), err
}

func (c *child) exchange(_ context.Context, blob []byte) ([][]byte, error) {
	c.say("%x", blob)
	s, err := c.hear()
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for f := range strings.SplitSeq(s, " ") {
		b, err := hex.DecodeString(f)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// hearOfLoss aborts for the rank that the parent names as lost, as a World does.
func (c *child) hearOfLoss() {
	text, err := c.hear()
	if r, bad := strconv.Atoi(text); err == nil && bad == nil {
		c.e.Abort(transport.Faultf(transport.FaultLost, r, "rank %d was killed", r))
	}
}

// runChild is the main function of a child.
func runChild(name string) error {
	p, ok := parts[name]
	if !ok {
		return fmt.Errorf("no part %q", name)
	}
	rank, err := strconv.Atoi(os.Getenv(envRank))
	if err != nil {
		return err
	}
	c := &child{rank: rank, in: bufio.NewReader(os.Stdin)}
	arg := os.Getenv(envArg)
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Limit)
	defer cancel()
	c.e, err = Connect(ctx, Config{Rank: rank, Layout: p.layout(arg), Key: testKey, JobID: "processes",
		Exchange: c.exchange})
	if err != nil {
		return err
	}
	if err := p.run(c, arg); err != nil {
		return err
	}
	return c.e.Close()
}

// family is the parent's side: one process per rank.
type family struct {
	t       testing.TB
	procs   []*exec.Cmd
	in      []io.WriteCloser
	out     []*bufio.Reader
	address string // of the maker's doorbell
}

// start starts a part on every rank and plays its two exchanges.
func start(t testing.TB, name, arg string) *family {
	t.Helper()
	f := &family{t: t}
	size := parts[name].layout(arg).Size
	t.Cleanup(f.end)
	for r := range size {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envPart+"="+name, envArg+"="+arg, envRank+"="+strconv.Itoa(r),
			"GORACE=atexit_sleep_ms=0") // otherwise each child takes a second to end under the race detector
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.procs, f.in, f.out = append(f.procs, cmd), append(f.in, in), append(f.out, bufio.NewReader(out))
	}
	f.address = f.exchange()
	f.exchange()
	return f
}

// exchange plays one exchange and returns the name of the maker's doorbell.
func (f *family) exchange() string {
	f.t.Helper()
	blobs := make([]string, len(f.procs))
	for r := range blobs {
		blobs[r] = f.hear(r)
	}
	for r := range blobs {
		f.say(r, strings.Join(blobs, " "))
	}
	b, err := hex.DecodeString(blobs[maker])
	if err != nil {
		f.t.Fatal(err)
	}
	if why := agree.Refusal(b); why != "" {
		f.t.Fatalf("maker's report: %s", why)
	}
	r, _ := reportOf(b) // none in the second
	return r.Bell
}

func (f *family) say(r int, s string) {
	f.t.Helper()
	if _, err := io.WriteString(f.in[r], s+"\n"); err != nil {
		f.t.Fatalf("to rank %d: %v", r, err)
	}
}

func (f *family) hear(r int) string {
	f.t.Helper()
	s, err := f.out[r].ReadString('\n')
	if err != nil {
		f.t.Fatalf("from rank %d: %v", r, err)
	}
	return strings.TrimSpace(s)
}

// kill kills a rank, and reports the loss to one other rank.
func (f *family) kill(victim, tell int) {
	f.t.Helper()
	if err := f.procs[victim].Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	_ = f.procs[victim].Wait()
	f.say(tell, strconv.Itoa(victim))
}

// end kills the processes that are left and waits for all of them.
func (f *family) end() {
	for r, cmd := range f.procs {
		_ = f.in[r].Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// wait waits for a rank to end well.
func (f *family) wait(r int) {
	f.t.Helper()
	if err := f.procs[r].Wait(); err != nil {
		f.t.Errorf("rank %d: %v", r, err)
	}
}
