//go:build linux

package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is the result of Gather or Join for one node.
type outcome struct {
	nodes []*Node  // of node 0
	conn  net.Conn // of the others
	err   error
	log   []string // Warn and Trace
	mu    sync.Mutex
}

func (o *outcome) logf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf(format, args...))
}

func (o *outcome) logged() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.log, "\n")
}

// config returns the settings of one of n nodes.
func config(o *outcome, at string, node, n int) *Config {
	return &Config{
		NodeHello: wire.NodeHello{Nodes: n, Node: node, Default: 2, Args: []string{"./train", "-x"}, Version: "v1",
			Host: fmt.Sprint("host", node)},
		Seed: at, JobID: "job", Key: bytes.Repeat([]byte{1}, 32), Timeout: time.Minute, Trace: o.logf, Warn: o.logf,
	}
}

// start starts a node; the channel gets its outcome when it is connected, or has failed.
func start(ctx context.Context, o *outcome, c *Config) <-chan *outcome {
	done := make(chan *outcome, 1)
	go func() {
		if c.Node == 0 {
			o.nodes, o.err = Gather(ctx, c)
		} else {
			o.conn, o.err = Join(ctx, c)
		}
		done <- o
	}()
	return done
}

// meet runs n nodes with one seed, with the settings of each changed by change.
func meet(t *testing.T, n int, change func(c *Config)) []*outcome {
	t.Helper()
	at := testutil.FreeAddress(t)
	var waits []<-chan *outcome
	for i := range n {
		o := new(outcome)
		c := config(o, at, i, n)
		if change != nil {
			change(c)
		}
		waits = append(waits, start(t.Context(), o, c))
	}
	var all []*outcome
	for _, w := range waits {
		all = append(all, <-w)
	}
	return all
}

// talk sends some bytes both ways over every connection, and closes it.
func talk(t *testing.T, all []*outcome) {
	t.Helper()
	var wait sync.WaitGroup
	for i, o := range all {
		if o.err != nil {
			t.Fatalf("node %d: %v", i, o.err)
		}
		if i == 0 {
			continue
		}
		sent := bytes.Repeat([]byte{byte(i), 7}, 100_000)
		wait.Go(func() { // echoes it
			_, _ = io.CopyN(o.conn, o.conn, int64(len(sent)))
		})
		zero := all[0].nodes[i].Conn
		wait.Go(func() { _, _ = zero.Write(sent) })
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(zero, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("node %d returns something else, %v", i, err)
		}
		_ = o.conn.Close()
		if n, err := zero.Read(got); n > 0 || err != io.EOF {
			t.Errorf("node %d has ended: %d bytes more, %v", i, n, err)
		}
		_ = zero.Close()
	}
	wait.Wait()
}

func TestMeeting(t *testing.T) {
	for _, n := range []int{1, 2, 9} {
		all := meet(t, n, func(c *Config) { c.Default = c.Node + 1 })
		for i, node := range all[0].nodes {
			if node == nil || node.Host != fmt.Sprint("host", i) || node.Default != i+1 {
				t.Errorf("node %d: %+v", i, node)
			}
		}
		talk(t, all)
	}
}

// Each node reports the same reason, without a wait.
func TestDifferentSettings(t *testing.T) {
	for _, c := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.Size = 4 * c.Node }, "-np 4, node 0 on host host0 has not given"},
		{func(c *Config) { c.PerNode = 1 + c.Node }, "node 1 on host host1 has --ppn 2, node 0 on host host0 has 1"},
		{func(c *Config) { c.Nodes += 5 * c.Node }, "--nnodes 7, node 0 on host host0 has 2"},
		{func(c *Config) { c.Args = append(c.Args, c.Host) }, `the command "./train -x host1"`},
		{func(c *Config) { c.Version += c.Host },
			"has treerun v1host1, node 0 on host host0 has v1host0 (hint: install the same version"},
	} {
		for i, o := range meet(t, 2, c.change) {
			if o.err == nil || !strings.Contains(o.err.Error(), c.want) {
				t.Errorf("node %d: %v, want %q", i, o.err, c.want)
			}
		}
	}
	for i, o := range meet(t, 3, func(c *Config) { c.Node = min(c.Node, 1) }) {
		if o.err == nil || !strings.Contains(o.err.Error(), "both are node 1") {
			t.Errorf("node %d: %v, want that two are node 1", i, o.err)
		}
	}
}

// All nodes learn why there will be no job, including those that connect late.
func TestBrokenNode(t *testing.T) {
	for broken := range 3 {
		all := meet(t, 3, func(c *Config) {
			if c.Node == broken {
				c.Broken = "no program"
			}
			if c.Node == 2 {
				time.Sleep(200 * time.Millisecond)
			}
		})
		for i, o := range all {
			if want := fmt.Sprintf("node %d on host host%d: no program", broken, broken); o.err == nil ||
				!strings.Contains(o.err.Error(), want) {
				t.Errorf("node %d is broken, node %d: %v", broken, i, o.err)
			}
		}
	}
}

func TestWrongKeyAndJob(t *testing.T) {
	for _, change := range []func(c *Config){
		func(c *Config) { c.Key = bytes.Repeat([]byte{byte(c.Node)}, 32) },
		func(c *Config) { c.JobID = fmt.Sprint("job", c.Node) },
	} {
		testutil.WithLonger(t, time.Second, func(limit time.Duration) error {
			all := meet(t, 2, func(c *Config) {
				change(c)
				c.Timeout = limit
			})
			if err := all[0].err; err == nil || !strings.Contains(err.Error(), "node 1 did not connect") {
				return fmt.Errorf("node 0: %w", err)
			}
			if log := all[0].logged(); strings.Count(log, "further ones are not reported") != 1 {
				return fmt.Errorf("the log of node 0: %s", log)
			}
			if log := all[0].logged(); !strings.Contains(log, "another key file, or another job id") {
				return fmt.Errorf("the log of node 0: %s", log)
			}
			if err := all[1].err; err == nil || !strings.Contains(err.Error(), "it does not have the key of this job") {
				return fmt.Errorf("node 1: %w", err)
			}
			return nil
		})
	}
}

// Node 0 listens only at its own address, if it knows it.
func TestListenAddress(t *testing.T) {
	for seed, want := range map[string]string{
		"127.0.0.1:7": "127.0.0.1:7", "127.9.9.9:7": "127.9.9.9:7", "[::1]:7": "[::1]:7",
		"[::ffff:127.0.0.1]:7": "127.0.0.1:7",
		"192.0.2.1:7":          ":7", "0.0.0.0:7": ":7", "localhost:7": ":7", "node1:7": ":7",
	} {
		if got := listenAt(seed); got != want {
			t.Errorf("%s: %s, want %s", seed, got, want)
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if at := net.JoinHostPort(ip.String(), "7"); err == nil && !ip.IsLinkLocalUnicast() {
			if got := listenAt(at); got != at {
				t.Errorf("this host's %s: %s", at, got)
			}
		}
	}
}

func TestMissingNodes(t *testing.T) {
	o := new(outcome)
	c := config(o, testutil.FreeAddress(t), 0, 20)
	c.Timeout = 50 * time.Millisecond
	got := <-start(t.Context(), o, c)
	if got.err == nil || !strings.HasPrefix(got.err.Error(),
		"nodes 1-19 did not connect to 127.0.0.1:") {
		t.Errorf("node 0: %v", got.err)
	}
	testutil.WithLonger(t, 200*time.Millisecond, func(limit time.Duration) error {
		o := new(outcome)
		c := config(o, testutil.FreeAddress(t), 3, 20)
		c.Timeout = limit
		got := <-start(t.Context(), o, c)
		if got.err == nil || !strings.Contains(got.err.Error(), "node 3 could not join node 0 at 127.0.0.1") ||
			!strings.Contains(got.err.Error(), "connection refused") {
			return fmt.Errorf("node 3: %w", got.err)
		}
		return nil
	})
}

// A connected node learns from node 0 which node is missing, although its own time ends first.
func TestAllNodesNameMissingNode(t *testing.T) {
	at := testutil.FreeAddress(t)
	zero, one := new(outcome), new(outcome)
	first, second := config(zero, at, 0, 3), config(one, at, 1, 3)
	first.Timeout, second.Timeout = time.Second, 800*time.Millisecond
	gathered, joined := start(t.Context(), zero, first), start(t.Context(), one, second)
	for i, o := range []*outcome{<-gathered, <-joined} {
		if o.err == nil || !strings.Contains(o.err.Error(), "node 2 did not connect to "+at) ||
			!strings.Contains(o.err.Error(), "2 of 3 are connected") {
			t.Errorf("node %d: %v, want node 2 named", i, o.err)
		}
	}
}

// A node that ends while it waits may be started again.
func TestNodeReconnects(t *testing.T) {
	at := testutil.FreeAddress(t)
	zero, first, second, last := new(outcome), new(outcome), new(outcome), new(outcome)
	gathered := start(t.Context(), zero, config(zero, at, 0, 3))
	ctx, cancel := context.WithCancelCause(t.Context())
	joined := start(ctx, first, config(first, at, 1, 3))
	until(t, func() bool { return strings.Contains(zero.logged(), "node 1 of 3 is connected") })
	ended := errors.New("ended")
	cancel(ended)
	if o := <-joined; !errors.Is(o.err, ended) {
		t.Errorf("the first: %v", o.err)
	}
	a, b := start(t.Context(), second, config(second, at, 1, 3)), start(t.Context(), last, config(last, at, 2, 3))
	talk(t, []*outcome{<-gathered, <-a, <-b})
}

// Whatever unauthenticated peers send, the gathering continues, and one line reports them.
func TestUnauthenticatedPeers(t *testing.T) {
	at := testutil.FreeAddress(t)
	zero, one := new(outcome), new(outcome)
	gathered := start(t.Context(), zero, config(zero, at, 0, 2))
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	dial := func(text string) {
		var c net.Conn
		until(t, func() (ok bool) {
			var err error
			c, err = net.Dial("tcp", at)
			return err == nil
		})
		_, _ = io.WriteString(c, text)
		open = append(open, c)
	}
	dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	dial(strings.Repeat("\x16\x03\x01\xff\xff", 1000))
	for range 500 { // more than there are places
		dial("") // sends nothing, and stays connected
	}
	until(t, func() bool { return strings.Contains(zero.logged(), "refused a connection") })
	joined := start(t.Context(), one, config(one, at, 1, 2))
	talk(t, []*outcome{<-gathered, <-joined})
	if n := strings.Count(zero.logged(), "further ones are not reported"); n != 1 {
		t.Errorf("%d reports:\n%s", n, zero.logged())
	}
}

func until(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition does not become true")
		}
	}
}
