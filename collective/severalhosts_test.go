//go:build linux

package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// The results are the same on several hosts as on one, whatever hosts the ranks are on.
func TestSeveralHosts(t *testing.T) {
	testutil.Long(t, "the way between hosts does not depend on the build")
	many := make([]int, 21) // whose connections are made on demand
	for r := range many {
		many[r] = r % 4
	}
	for _, hosts := range [][]int{{0, 1}, {0, 1, 2, 3}, {0, 0, 1, 1}, {0, 1, 0, 1, 2}, many} {
		for _, encrypt := range []string{"", "1"} {
			if encrypt == "" && len(hosts) == len(many) && !testutil.Thorough() {
				continue // each of many ranks plans for itself
			}
			t.Run(fmt.Sprint(hosts, encrypt), func(t *testing.T) {
				settings := map[string]string{"encrypt": encrypt, "start-timeout": "30s"}
				errs := runHosts(t, hosts, settings, func(w *testutil.Hosted, c *Comm) error {
					for _, n := range []int{0, 1, 7, 1000, 100003} {
						if err := checkSum(t, c, n); err != nil {
							return err
						}
					}
					return errors.Join(checkOthers(t, c), Barrier(t.Context(), c))
				}, WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A message that is sent before its receiver requests a connection arrives, even if the sender has closed meanwhile.
func TestMessageBeforeItsConnection(t *testing.T) {
	hosts := make([]int, 20)
	for r := range hosts {
		hosts[r] = r / 5
	}
	errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
		const low, high = 6, 18
		x := []int64{7}
		switch w.Rank() {
		case high:
			return Send(t.Context(), c, x, low, 3)
		case low:
			time.Sleep(300 * time.Millisecond)
			x[0] = 0
			if _, err := Recv(t.Context(), c, x, high, 3); err != nil || x[0] != 7 {
				return fmt.Errorf("%v, %w", x, err)
			}
		}
		return nil
	}, WithGraph(testutil.GraphOn(hosts)))
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// Ranks that close at once after a call end it correctly, whichever connections are not made yet: the other ranks get
// the results of all calls before they learn of the end.
func TestCloseAtOnceAfterACall(t *testing.T) {
	hosts := make([]int, 18)
	for r := range hosts {
		hosts[r] = r / 6
	}
	all, one := make([]int64, len(hosts)), make([]int64, 1)
	for name, call := range map[string]func(c *Comm) error{
		"Gather":    func(c *Comm) error { return Gather(t.Context(), c, one, slices.Clone(all), 2) },
		"Reduce":    func(c *Comm) error { return Reduce(t.Context(), c, one, make([]int64, 1), Sum, 2) },
		"Broadcast": func(c *Comm) error { return Broadcast(t.Context(), c, one, make([]int64, 1), 2) },
		"AllReduce": func(c *Comm) error { return AllReduce(t.Context(), c, one, make([]int64, 1), Sum) },
	} {
		t.Run(name, func(t *testing.T) {
			for range testutil.Count(3, 10) {
				errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
					return errors.Join(call(c), c.Close())
				}, WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkOthers runs the collectives with roots and parts, a message around the ring, and a group of every second rank.
func checkOthers(t *testing.T, c *Comm) error {
	n, me := c.Size(), c.Rank()
	for root := range n {
		b := make([]int64, 5000)
		if me == root {
			for i := range b {
				b[i] = int64(i * (root + 1))
			}
		}
		if err := Broadcast(t.Context(), c, b, b, root); err != nil {
			return err
		}
		if b[4999] != int64(4999*(root+1)) {
			return fmt.Errorf("rank %d: Broadcast from %d gave %d", me, root, b[4999])
		}
	}
	all := make([]int32, 3*n)
	if err := AllGather(t.Context(), c, []int32{int32(me), int32(me + 1), int32(me + 2)}, all); err != nil {
		return err
	}
	for r := range n {
		if all[3*r] != int32(r) || all[3*r+2] != int32(r+2) {
			return fmt.Errorf("rank %d: AllGather gave %v", me, all)
		}
	}
	got := make([]int32, 1)
	if err := exchanged(t.Context(), c, []int32{int32(me)}, (me+1)%n, got, (me+n-1)%n, 5); err != nil {
		return err
	}
	if got[0] != int32((me+n-1)%n) {
		return fmt.Errorf("rank %d: SendRecv gave %d", me, got[0])
	}
	g, err := c.Split(t.Context(), me%2, me)
	if err != nil {
		return err
	}
	err = checkSum(t, g, 1000)
	return errors.Join(err, g.Close())
}

// A rank that aborts ends the calls of all, on whatever hosts.
func TestAbortAcrossHosts(t *testing.T) {
	hosts := []int{0, 0, 1, 1, 2}
	begin := time.Now()
	for r, err := range runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
		if c.Rank() == 3 {
			time.Sleep(50 * time.Millisecond)
			c.Abort(errors.New("enough"))
		}
		for {
			if err := checkSum(t, c, 1000); err != nil {
				return err
			}
		}
	}, WithGraph(testutil.GraphOn(hosts))) {
		var re *RankError
		if !errors.Is(err, ErrAborted) || !errors.As(err, &re) || re.Rank != 3 {
			t.Errorf("rank %d: %v, want ErrAborted of rank 3", r, err)
		}
	}
	if d := time.Since(begin); d > soon {
		t.Errorf("it took %v", d)
	}
}

// Links end while all ranks live: the error names the rank that the World reports as lost, if it does so soon;
// otherwise it is the error of the links, with both ranks. A rank that is not in a call gets the error, too.
func TestLinksEnd(t *testing.T) {
	hosts := []int{0, 0, 1}
	for name, want := range map[string]struct {
		text string
		is   error
	}{"the World knows": {"SIGKILL", ErrRankLost}, "nobody knows": {"the network between", ErrLink}} {
		t.Run(name, func(t *testing.T) {
			for r, err := range runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
				if err := errors.Join(checkSum(t, c, 1000), Barrier(t.Context(), c)); err != nil {
					return err
				}
				if w.Rank() == 2 {
					endConnections()
					if name == "the World knows" {
						time.Sleep(300 * time.Millisecond)
						w.Fail(2, errors.New("killed by SIGKILL"))
					}
				}
				if w.Rank() > 0 { // in no call
					for over := false; !over; _, over = c.in.Endpoint.Aborted() {
						time.Sleep(time.Millisecond)
					}
				}
				return checkSum(t, c, 1000)
			}, WithGraph(testutil.GraphOn(hosts))) {
				var re *RankError
				if !errors.As(err, &re) || re.Rank < 0 || !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.text) {
					t.Errorf("rank %d: %v", r, err)
				}
				if pair := "rank 2 on"; want.is == ErrLink && !strings.Contains(err.Error(), pair) {
					t.Errorf("rank %d: %v, without %q", r, err, pair)
				}
			}
		})
	}
}

// endConnections ends all TCP connections of this process.
func endConnections() {
	for fd := 3; fd < 1000; fd++ {
		if at, err := unix.Getpeername(fd); err == nil {
			if _, is := at.(*unix.SockaddrInet4); is {
				_ = unix.Shutdown(fd, unix.SHUT_RDWR)
			}
		}
	}
}

// Ranks of different hosts that make different calls get an ErrMismatch.
func TestMismatchAcrossHosts(t *testing.T) {
	hosts := []int{0, 0, 1, 1}
	for r, err := range runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
		op := Sum
		if c.Rank() == 2 {
			op = Max
		}
		b := make([]float32, 100)
		return AllReduce(t.Context(), c, b, b, op)
	}, WithGraph(testutil.GraphOn(hosts))) {
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("rank %d: %v, want ErrMismatch", r, err)
		}
	}
}

// A network without a known graph is measured.
func TestMeasuredAcrossHosts(t *testing.T) {
	hosts := []int{0, 0, 1}
	errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
		g := c.Graph()
		if len(g.Hosts) != 3 || len(g.Links) < 2 {
			return fmt.Errorf("graph %+v", g)
		}
		for _, l := range g.Links {
			if !(l.GBytesPerSecond > 0) || !(l.LatencyUs > 0) || (l.Kind == topo.TCP) != (hosts[l.A] != hosts[l.B]) {
				return fmt.Errorf("link %+v", l)
			}
		}
		return checkSum(t, c, 1000)
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestMessagesBetweenHosts: SendSync, ProbeMatched, WaitAny and prepared messages over TCP.
func TestMessagesBetweenHosts(t *testing.T) {
	hosts := []int{0, 0, 1}
	for r, err := range runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
		for _, count := range []int{1, 100_000} {
			x := slices.Repeat([]int32{int32(c.Rank())}, count)
			if c.Rank() > 0 {
				send, err := SendInit(c, x, 0, c.Rank())
				if err != nil {
					return err
				}
				m, err := send.Start()
				err = errors.Join(err, SendSync(t.Context(), c, x, 0, 7))
				if err := errors.Join(err, m.Wait(t.Context())); err != nil {
					return err
				}
				continue
			}
			pending, got := []Message{{}}, [][]int32{nil}
			for r := 1; r < c.Size(); r++ {
				got = append(got, make([]int32, count))
				m, err := StartRecv(c, got[r], r, r)
				if err != nil {
					return err
				}
				pending = append(pending, m)
			}
			for range hosts[1:] {
				r, err := WaitAny(t.Context(), pending...)
				if err != nil || got[r][count-1] != int32(r) {
					return fmt.Errorf("WaitAny: rank %d: %w", r, err)
				}
				pending[r] = Message{}
				found, err := ProbeMatched(t.Context(), c, AnySource, 7)
				if err != nil {
					return err
				}
				n, err := RecvMatched(t.Context(), found, x)
				if err != nil || n != count || x[count-1] != int32(found.Source) {
					return fmt.Errorf("RecvMatched from %d: %d elements, %d: %w", found.Source, n, x[count-1], err)
				}
			}
		}
		return Barrier(t.Context(), c)
	}, WithGraph(testutil.GraphOn(hosts))) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
