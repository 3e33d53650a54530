//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// nodeGroup are treeruns that a user starts by hand, one per host.
type nodeGroup struct {
	t         *testing.T
	seed, key string
	n         int
}

func newNodes(t *testing.T, n int) *nodeGroup {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &nodeGroup{t, testutil.FreeAddress(t), key, n}
}

// start starts the treerun of node i.
func (n *nodeGroup) start(i int, args ...string) *launched {
	n.t.Helper()
	flags := []string{"--nnodes", strconv.Itoa(n.n), "--node-rank", strconv.Itoa(i), "--seed", n.seed, "--key-file", n.key}
	return startTreerun(n.t, nil, append(flags, args...)...)
}

// startAll starts all with the same arguments.
func (n *nodeGroup) startAll(args ...string) []*launched {
	n.t.Helper()
	var all []*launched
	for i := range n.n {
		all = append(all, n.start(i, args...))
	}
	return all
}

const nodeSleeper = `echo pid $$; sleep 300 & wait`

// Node 0 prints the output of the ranks of all nodes, and all end with 0.
func TestNodes(t *testing.T) {
	all := newNodes(t, 3).startAll("--ppn", "2", "sh", "-c",
		`echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, master $MASTER_ADDR`)
	for _, l := range all {
		l.checkEnd(0)
	}
	for r := range 6 {
		want := fmt.Sprintf("[%d] rank %d of 6, %d of 2, master 127.0.0.1", r, r, r%2)
		if text := strings.Join(all[0].output, "\n"); !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for i, l := range all[1:] {
		if len(l.output) > 0 || l.stderr.Len() > 0 {
			t.Errorf("node %d prints %v %s", i+1, l.output, &l.stderr)
		}
	}
}

// All treeruns give the exit code of the rank that failed first, on any node.
func TestNodesFailure(t *testing.T) {
	all := newNodes(t, 3).startAll("-np", "3", "sh", "-c", `[ $RANK = 2 ] && exit 7; sleep 300`)
	for _, l := range all {
		l.checkEnd(7)
	}
	if text := all[0].stderr.String(); !strings.Contains(text, "rank 2 failed first: it exited with code 7") {
		t.Errorf("the cause is missing:\n%s", text)
	}
}

func TestKillNode(t *testing.T) {
	all := newNodes(t, 3).startAll("--ppn", "1", "sh", "-c", nodeSleeper)
	all[0].expect(3, "pid ")
	all[2].signal(syscall.SIGKILL)
	all[2].checkEnd(137)
	all[0].checkEnd(125)
	all[1].checkEnd(125)
	if text := all[0].stderr.String(); !strings.Contains(text, "was lost") {
		t.Errorf("no line reports that a host was lost:\n%s", text)
	}
}

func TestKillNode0(t *testing.T) {
	all := newNodes(t, 3).startAll("--ppn", "1", "sh", "-c", nodeSleeper)
	all[0].expect(3, "pid ")
	all[0].signal(syscall.SIGKILL)
	all[0].checkEnd(137)
	for _, l := range all[1:] {
		l.checkEnd(125)
		if text := l.stderr.String(); !strings.Contains(text, "treerun: node 0 is lost") {
			t.Errorf("stderr:\n%s", text)
		}
	}
}

// A node 0 that was stopped reports that, and does not blame a host that has given it up.
func TestStoppedNode0(t *testing.T) {
	all := newNodes(t, 2).startAll("--ppn", "1", "--peer-timeout", "1s", "sh", "-c", nodeSleeper)
	all[0].expect(2, "pid ")
	all[0].signal(syscall.SIGSTOP)
	all[1].checkEnd(125)
	all[0].signal(syscall.SIGCONT)
	all[0].checkEnd(125)
	if text := all[0].stderr.String(); !strings.Contains(text, "    hint    this treerun had itself been stopped, and ") {
		t.Error(text)
	}
}

// A node that is stopped is killed with its ranks, and a line says why.
func TestStoppedNode(t *testing.T) {
	all := newNodes(t, 2).startAll("--ppn", "1", "--peer-timeout", "1s", "sh", "-c", nodeSleeper)
	all[0].expect(2, "pid ")
	all[1].signal(syscall.SIGSTOP)
	all[0].checkEnd(125)
	all[1].checkEnd(137)
	if text := all[1].stderr.String(); !strings.Contains(text, "did nothing for 1s (--peer-timeout): it was stopped") {
		t.Error(text)
	}
}

// A signal to any treerun stops the job on all nodes, in good order.
func TestSignalToNode(t *testing.T) {
	t.Parallel() // most of it waits for the ranks' children
	for _, node := range []int{0, 1} {
		all := newNodes(t, 2).startAll("--ppn", "1", "sh", "-c",
			`trap 'echo bye; exit 0' TERM; echo pid $$; sleep 300 & wait`)
		all[0].expect(2, "pid ")
		all[node].signal(syscall.SIGTERM)
		for _, l := range all {
			l.checkEnd(143)
		}
		if text := strings.Join(all[0].output, "\n"); strings.Count(text, "bye") != 2 {
			t.Errorf("the ranks could not print bye:\n%s", text)
		}
	}
}

func TestSignalToWaitingNode(t *testing.T) {
	for node, want := range []string{"", "stopped by terminated while waiting for the other nodes"} {
		l := newNodes(t, 2).start(node, "true")
		time.Sleep(100 * time.Millisecond) // the signal may even come before the treerun has begun
		l.signal(syscall.SIGTERM)
		l.checkEnd(143)
		if text := l.stderr.String(); !strings.Contains(text, want) && text != "" {
			t.Errorf("node %d: %s", node, text)
		}
	}
}

// All nodes report settings that do not fit together.
func TestNodesThatDiffer(t *testing.T) {
	for _, c := range []struct {
		one, two []string
		codes    [2]int
		want     string
	}{
		{[]string{"-np", "4", "true"}, []string{"-np", "6", "true"}, [2]int{125, 125}, "node 1 on host"},
		{[]string{"--ppn", "2", "true"}, []string{"true"}, [2]int{125, 125}, "has --ppn not given, node 0"},
		{[]string{"true"}, []string{"true", "-x"}, [2]int{125, 125}, `has the command "true -x"`},
		{[]string{"--algorithm", "kl", "true"}, []string{"true"}, [2]int{125, 125}, `has "--algorithm kl true"`},
		{[]string{"--stdin", "all", "true"}, []string{"--stdin", "none", "true"}, [2]int{125, 125},
			`has the command "--stdin=none true", node 0`},
		{[]string{"true"}, []string{"--mem-per-rank", "1G", "true"}, [2]int{125, 125}, `has "true"`},
		{[]string{"-x", "A=1", "true"}, []string{"-x", "A=2", "true"}, [2]int{125, 125}, `has the command "-x A=(sum d4735e3a) true", node 0`},
		{[]string{"true"}, []string{"--show-ranks", "0", "true"}, [2]int{125, 125}, `has the command "--show-ranks=0`},
		{[]string{"--graph", "dgx1v", "true"}, []string{"--graph", "dgx1v", "true"}, [2]int{64, 125},
			"the graph has 8 ranks|node 0 ended before the job began"},
		{[]string{"-np", "1", "true"}, []string{"-np", "1", "true"}, [2]int{125, 125},
			"-np 1 leaves some of 2 nodes without a rank"},
		{[]string{"./here"}, []string{"./here"}, [2]int{125, 127}, "./here"},
	} {
		n := newNodes(t, 2)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\nexec sleep 300\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		a := startTreerun(t, func(cmd *exec.Cmd) { cmd.Dir = dir },
			append([]string{"--nnodes", "2", "--node-rank", "0", "--seed", n.seed, "--key-file", n.key}, c.one...)...)
		b := n.start(1, c.two...)
		a.checkEnd(c.codes[0])
		b.checkEnd(c.codes[1])
		wants := strings.Split(c.want, "|") // of each node, or of both
		for i, l := range []*launched{a, b} {
			want := wants[i%len(wants)]
			if text := l.stderr.String(); !strings.Contains(text, want) {
				t.Errorf("node %d of %v and %v, want %q:\n%s", i, c.one, c.two, want, text)
			}
		}
	}
}

// Without flags of the user, treerun under srun or in a pod must not make one
// job of each host, nor of all without a key.
func TestNodesOfEnvironment(t *testing.T) {
	n := newNodes(t, 2)
	host, port, err := net.SplitHostPort(n.seed)
	if err != nil {
		t.Fatal(err)
	}
	lws := func(i int) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "LWS_GROUP_SIZE=2", "LWS_LEADER_ADDRESS="+host, fmt.Sprint("LWS_WORKER_INDEX=", i))
		}
	}
	torch := func(i int) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "PET_NNODES=2", "PET_MASTER_ADDR="+host, "PET_MASTER_PORT="+port,
				fmt.Sprint("PET_NODE_RANK=", i), "PET_NPROC_PER_NODE=3", "TREERUN_KEY_FILE="+n.key)
		}
	}
	l := startTreerun(t, lws(1), "true")
	l.checkEnd(64)
	const want = "this is node 1 of 2 according to LeaderWorkerSet: give --key-file"
	if text := l.stderr.String(); !strings.Contains(text, want) {
		t.Errorf("without a key:\n%s", text)
	}
	startTreerun(t, lws(1), "--nnodes", "1", "-np", "2", "true").checkEnd(0)
	a, b := startTreerun(t, torch(0), "sh", "-c", "echo $RANK of $WORLD_SIZE"),
		startTreerun(t, torch(1), "sh", "-c", "echo $RANK of $WORLD_SIZE")
	a.checkEnd(0)
	b.checkEnd(0)
	if len(a.output) != 6 || !strings.Contains(strings.Join(a.output, "\n"), "[5] 5 of 6") {
		t.Errorf("node 0 prints %v", a.output)
	}
}

func TestKeyFileMode(t *testing.T) {
	n := newNodes(t, 2)
	if err := os.Chmod(n.key, 0o640); err != nil {
		t.Fatal(err)
	}
	l := n.start(0, "true")
	l.checkEnd(64)
	if text := l.stderr.String(); !strings.Contains(text, "has mode 0640") {
		t.Errorf("stderr:\n%s", text)
	}
}

// podCommand returns the command of the pods of a Kubernetes manifest, as they run it: only the address, the key, the
// number of ranks and the program differ.
func (n *nodeGroup) podCommand(manifest string, program ...string) []string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "jobset", manifest))
	if err != nil {
		n.t.Fatal(err)
	}
	var m struct {
		Spec struct {
			ReplicatedJobs []struct {
				Template struct {
					Spec struct {
						Parallelism, Completions int
						Template                 struct {
							Spec struct{ Containers []struct{ Command []string } }
						}
					}
				} `yaml:"template"`
			} `yaml:"replicatedJobs"`
		}
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		n.t.Fatal(err)
	}
	pods := m.Spec.ReplicatedJobs[0].Template.Spec
	n.n = pods.Completions
	args := slices.Clone(pods.Template.Spec.Containers[0].Command[1:])
	end := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	for i, a := range args[:end] {
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--nnodes":
			if a != fmt.Sprint("--nnodes=", pods.Parallelism) || pods.Parallelism != pods.Completions {
				n.t.Errorf("%s for %d pods of %d at once", a, pods.Completions, pods.Parallelism)
			}
		case "--seed":
			args[i] = "--seed=" + n.seed
		case "--key-file":
			args[i] = "--key-file=" + n.key
		case "--ppn":
			args[i] = "--ppn=1"
		case "--job-id":
			args[i] = strings.ReplaceAll(a, "$(ATTEMPT)", "0") // as the kubelet does
		}
	}
	return append(args[:end], program...)
}

// startPod starts a pod.
func (n *nodeGroup) startPod(i int, args []string) *launched {
	n.t.Helper()
	return startTreerun(n.t, func(c *exec.Cmd) {
		c.Env = append(c.Env, fmt.Sprint("JOB_COMPLETION_INDEX=", i))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the guard of a pod that was killed sees no other
	}, args...)
}

// The commands of the manifest make one job.
func TestJobSetManifest(t *testing.T) {
	testutil.NotUnderRace(t, "TestNodes starts the same code")
	n := newNodes(t, 0)
	args := n.podCommand("jobset.yaml", "sh", "-c", "echo $RANK of $WORLD_SIZE")
	var all []*launched
	for i := range n.n {
		all = append(all, n.startPod(i, args))
	}
	for _, l := range all {
		l.checkEnd(0)
	}
	if text := strings.Join(all[0].output, "\n"); !strings.Contains(text, "[3] 3 of 4") {
		t.Errorf("pod 0 prints %s", text)
	}
}

// The pods of a job that continues: one is killed, and made again, as the controller does, while the others go on. It
// joins them in another epoch, as often as that happens: in the next one, if it is back before they have left theirs. A
// pod with the number of one that lives has to wait.
func TestJobSetContinues(t *testing.T) {
	n := newNodes(t, 0)
	args := n.podCommand("continues.yaml", "joiner", "3")
	var pods []*launched
	for i := range n.n {
		pods = append(pods, n.startPod(i, args))
	}
	pods[0].expect(n.n, "epoch 0: ")
	for _, node := range []int{2, 2, 3} {
		again := n.startPod(node, args)
		pods[node].signal(syscall.SIGKILL)
		pods[node].checkEnd(137)
		pods[node] = again
		pods[0].expect(n.n, fmt.Sprintf("joined [%d]", node))
	}
	for _, l := range pods {
		l.checkEnd(0)
	}
	text := pods[0].stderr.String()
	if strings.Count(text, " is back: starting 1 rank (") != 3 ||
		!strings.Contains(text, "ended well with 4 (0-3), after") {
		t.Errorf("stderr:\n%s", text)
	}
}

// A node whose cable is pulled: all treeruns end within the peer timeout, including
// that of the node, and nothing is left on it.
func TestNodeVanishes(t *testing.T) {
	t.Parallel()
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "van"})
	n := newNodes(t, 3)
	n.seed = net.JoinHostPort(h.Name(0), "29517")
	self := namedTreerun(t)
	var all []*launched
	for i := range n.n {
		args := []string{"--nnodes", "3", "--node-rank", strconv.Itoa(i), "--seed", n.seed, "--key-file", n.key, "--ppn", "1",
			"--peer-timeout", "6", "sh", "-c", nodeSleeper}
		all = append(all, startTreerun(t, func(c *exec.Cmd) {
			inside := h.Command(i, self, args...)
			c.Path, c.Args = inside.Path, inside.Args
		}, args...))
	}
	all[0].expect(3, "pid ")
	if err := h.Unplug(0, 2); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		l.checkEnd(125)
	}
	if text := all[0].stderr.String(); !strings.Contains(text, "host "+h.Name(2)+" was lost") {
		t.Errorf("the host is not named:\n%s", text)
	}
	if text := all[2].stderr.String(); !strings.Contains(text, "node 0 is lost: the launcher has sent nothing for") {
		t.Errorf("node 2 says:\n%s", text)
	}
}

// The launcher does not wait for a last message of its own host, which only agents send:
// the last messages of the hosts take much less than the second that it allows for them.
func TestNodesEndAtOnce(t *testing.T) {
	best := time.Hour
	for range 5 { // a busy machine takes its time, but not always
		all := newNodes(t, 2).startAll("--ppn", "1", "sh", "-c", "date +%s.%N")
		for _, l := range all {
			l.checkEnd(0)
		}
		over := time.Now()
		for _, line := range all[0].output {
			s, err := strconv.ParseFloat(line[strings.Index(line, "] ")+2:], 64)
			if err != nil {
				t.Fatal(err)
			}
			best = min(best, over.Sub(time.UnixMicro(int64(s*1e6))))
		}
		if best < time.Second {
			return
		}
	}
	t.Errorf("the job ends %v after its last rank, at best", best)
}
