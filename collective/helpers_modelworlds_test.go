package collective

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
)

// modelRanks are ranks that programs are run on.
type modelRanks struct {
	name      string
	hosts     []int // by rank
	cores     int   // number of cores per host that ranks assume; 0: the real one
	bytes     int   // of a program; 0: maxProgramBytes
	opts      []Option
	processes bool // else goroutines
	memory    bool // of one process: goroutines that share its memory
}

var allModelRanks = []modelRanks{
	{name: "shm", hosts: []int{0, 0}},
	{name: "shm, one core", hosts: []int{0, 0}, cores: 1},
	{name: "shm, small slots", hosts: []int{0, 0, 0}, cores: 3, bytes: 128 << 10, opts: []Option{WithSlots(2, 64)}},
	{name: "shm, many", hosts: []int{0, 0, 0, 0, 0}},
	{name: "mem", hosts: []int{0, 0, 0, 0}, memory: true},
	{name: "tcp", hosts: []int{0, 1}},
	{name: "tcp, small slots", hosts: []int{0, 1, 2}, bytes: 1 << 20, opts: []Option{WithSlots(4, 1024)}},
	{name: "mixed", hosts: []int{0, 0, 1}},
	{name: "mixed, one core", hosts: []int{0, 1, 0, 1, 0}, cores: 1},
	{name: "processes", hosts: []int{0, 0}, processes: true},
	{name: "processes, many", hosts: []int{0, 0, 0}, processes: true},
}

func (m *modelRanks) options() []Option {
	opts := []Option{WithTopoCache(""), WithGraph(testutil.GraphOn(m.hosts)), func(c *setup.Config) {
		if m.cores > 0 {
			c.Cores = m.cores
		}
	}}
	return append(opts, m.opts...)
}

func (m *modelRanks) open(t *testing.T) modelWorld {
	if m.processes {
		return openProcesses(t, m)
	}
	w := &goroutines{done: make(chan result, len(m.hosts))}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for r, world := range m.worlds() {
		next := make(chan []operation, 1)
		w.ranks = append(w.ranks, next)
		w.all.Go(func() {
			c, err := New(ctx, world, m.options()...)
			for operations := range next {
				if err == nil {
					err = runModel(ctx, c, operations)
				}
				w.done <- result{r, err}
			}
			if c != nil {
				_ = c.Close() // what ended it was an error of the program
			}
		})
	}
	return w
}

// worlds returns the Worlds of ranks that are goroutines.
func (m *modelRanks) worlds() []World {
	if m.memory {
		return InProcess(len(m.hosts))
	}
	job, all := testutil.NewJob(m.hosts...), make([]World, len(m.hosts))
	for r := range all {
		all[r] = job.World(r)
		if !setup.OneHost(m.hosts) {
			all[r] = &testutil.Hosted{World: job.World(r)} // with addresses
		}
	}
	return all
}

// goroutines is a modelWorld.
type goroutines struct {
	ranks []chan []operation
	done  chan result
	stop  func()
	all   sync.WaitGroup
}

func (w *goroutines) begin(p program) {
	for r, next := range w.ranks {
		next <- p.Ranks[r]
	}
}

func (w *goroutines) results() <-chan result { return w.done }

func (w *goroutines) end() {
	for _, next := range w.ranks {
		close(next)
	}
	defer time.AfterFunc(3*time.Second, w.stop).Stop() // for ranks that wait
	ended := make(chan struct{})
	go func() { w.all.Wait(); close(ended) }()
	select {
	case <-ended:
		w.stop()
	case <-time.After(10 * time.Second): // the test has failed, and reports it
	}
}

// processes is a modelWorld whose ranks are processes of the test binary. A rank reads lines: programs, and the blobs
// of all ranks for an AllGather. Its answers begin with gives or ends.
type processes struct {
	ranks []*exec.Cmd
	in    []io.WriteCloser
	lost  []*os.File // to each rank: the number of one that has ended
	over  atomic.Bool
	done  chan result
	all   sync.WaitGroup

	mu    sync.Mutex
	blobs []string // of the AllGather under way
	given int
}

const (
	envModelRank = "TREERUN_MODEL_RANK" // rank, ranks, job
	gives        = "gives "
	ends         = "ends "
)

func openProcesses(t *testing.T, m *modelRanks) *processes {
	n := len(m.hosts)
	w := &processes{done: make(chan result, n), blobs: make([]string, n)}
	var out []io.Reader
	for r := range n {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d model%d", envModelRank, r, n, os.Getpid()))
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		answers, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		hears, lost, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraFiles = []*os.File{hears}
		if err := errors.Join(c.Start(), hears.Close()); err != nil {
			t.Fatal(err)
		}
		w.lost = append(w.lost, lost)
		w.ranks, w.in, out = append(w.ranks, c), append(w.in, in), append(out, answers)
	}
	for r := range out {
		w.all.Go(func() { w.hear(r, bufio.NewReader(out[r])) })
	}
	for range n { // until they have a communicator
		if of := <-w.done; of.err != nil {
			t.Fatal(of.err)
		}
	}
	return w
}

func (w *processes) hear(r int, out *bufio.Reader) {
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			for _, of := range w.lost {
				if !w.over.Load() {
					_, _ = of.Write([]byte{byte(r)}) // it may have ended, too
				}
			}
			w.done <- result{r, fmt.Errorf("%w: rank %d: %w", errEnded, r, err)}
			return
		}
		line = strings.TrimSuffix(line, "\n")
		if text, is := strings.CutPrefix(line, ends); is {
			w.done <- result{r, parseFailure(text)}
		} else if blob, is := strings.CutPrefix(line, gives); is {
			w.give(r, blob)
		}
	}
}

// give stores a rank's blob for an AllGather, and sends all blobs to the ranks when it is the last one.
func (w *processes) give(r int, blob string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blobs[r] = blob
	if w.given++; w.given < len(w.ranks) {
		return
	}
	w.given = 0
	for _, in := range w.in {
		_, _ = io.WriteString(in, strings.Join(w.blobs, " ")+"\n")
	}
}

func (w *processes) begin(p program) {
	for r, in := range w.in {
		b, err := json.Marshal(p.Ranks[r])
		if err != nil {
			panic(err)
		}
		_, _ = in.Write(append(b, '\n')) // hear reports that a rank has ended
	}
}

func (w *processes) results() <-chan result { return w.done }

func (w *processes) end() {
	w.over.Store(true)
	for r, c := range w.ranks {
		_ = w.in[r].Close()
		time.AfterFunc(5*time.Second, func() { _ = c.Process.Kill() })
	}
	drained := make(chan struct{})
	go func() {
		for {
			select {
			case <-w.done:
			case <-drained:
				return
			}
		}
	}()
	w.all.Wait()
	close(drained)
	for r, c := range w.ranks {
		_ = c.Wait()
		_ = w.lost[r].Close()
	}
}

// pipeWorld is the World of a process that a test has started.
type pipeWorld struct {
	rank, size int
	job        string
	in         *bufio.Reader
	lost       int           // set before failed is closed
	failed     chan struct{} // closed when the test reports that a rank has ended
}

func (w *pipeWorld) hearOfLoss() {
	var of [1]byte
	if n, _ := os.NewFile(3, "lost ranks").Read(of[:]); n == 1 {
		w.lost = int(of[0])
		close(w.failed)
	}
}

func (w *pipeWorld) Rank() int { return w.rank }

func (w *pipeWorld) Size() int { return w.size }

func (w *pipeWorld) HostOf(int) int { return 0 }

func (w *pipeWorld) Failed() <-chan struct{} { return w.failed }

func (w *pipeWorld) Failure() (int, error) {
	select {
	case <-w.failed:
		return w.lost, fmt.Errorf("rank %d has ended", w.lost)
	default:
		return -1, nil
	}
}

func (w *pipeWorld) DeriveKey(string) []byte { return make([]byte, 32) }

func (w *pipeWorld) JobID() string { return w.job }

func (w *pipeWorld) Setting(string) string { return "" }

func (w *pipeWorld) AllGather(_ context.Context, blob []byte) ([][]byte, error) {
	fmt.Printf("%s%x\n", gives, blob)
	line, err := w.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for part := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), " ") {
		b, err := hex.DecodeString(part)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (w *pipeWorld) serve() error {
	runtime.GOMAXPROCS(1 + w.rank%2)
	m := modelRanks{hosts: make([]int, w.size)}
	c, err := New(context.Background(), w, m.options()...)
	if err != nil {
		return err
	}
	fmt.Println(ends)
	for {
		line, err := w.in.ReadBytes('\n')
		if err != nil {
			return errors.Join(err, c.Close())
		}
		var operations []operation
		if err := json.Unmarshal(line, &operations); err != nil {
			return err
		}
		fmt.Printf("%s%s\n", ends, formatFailure(runModel(context.Background(), c, operations)))
	}
}

var errEnded = errors.New("a process has ended")

// errTyped is wrapped by a RankError of another process.
var errTyped = errors.New("a RankError")

// formatFailure formats err as a line, and parseFailure makes an error of it.
func formatFailure(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), "\n", "\t")
	if re := (*RankError)(nil); errors.As(err, &re) && !errors.Is(err, errWrong) {
		return errTyped.Error() + " " + text
	}
	return text
}

func parseFailure(line string) error {
	text := strings.ReplaceAll(line, "\t", "\n")
	if typed, is := strings.CutPrefix(text, errTyped.Error()+" "); is {
		return fmt.Errorf("%w: %s", errTyped, typed)
	} else if text != "" {
		return errors.New(text)
	}
	return nil
}
