//go:build linux

package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// closedPort returns a port of 127.0.0.1 at which no process listens.
func closedPort(t *testing.T) netip.AddrPort {
	return netip.MustParseAddrPort(testutil.FreeAddress(t))
}

// sameError fails unless all ranks have the same UnreachableError, and returns it.
func sameError(t *testing.T, errs []error) *UnreachableError {
	t.Helper()
	var first *UnreachableError
	for r, err := range errs {
		var e *UnreachableError
		if !errors.As(err, &e) {
			t.Fatalf("rank %d: error %v", r, err)
		}
		if first == nil {
			first = e
		}
		if e.Error() != first.Error() {
			t.Errorf("rank %d reports\n%v\nrank 0 reports\n%v", r, e, first)
		}
	}
	return first
}

// If two pairs cannot connect, all ranks return the same lines, long before the timeout if the answer is definite.
func TestRefusedPairs(t *testing.T) {
	closed := closedPort(t)
	begin := time.Now()
	_, errs := connect(t, 4, func(cfg *Config) {
		cfg.Timeout = limit
		if cfg.Rank == 1 {
			cfg.Via = func(int, netip.AddrPort) netip.AddrPort { return closed }
		}
	})
	e := sameError(t, errs)
	if d := time.Since(begin); d > limit/2 {
		t.Errorf("it took %v", d)
	}
	text := e.Error()
	for port := 10_000; port < 65536; port++ { // ports differ from run to run
		text = strings.ReplaceAll(text, fmt.Sprintf(":%d,", port), ":PORT,")
	}
	want := `2 pairs of ranks cannot connect:
  rank 1 (127.0.1.2, lo on host b) -> rank 2 (127.0.1.3:PORT, lo on host c): connection refused; 127.0.1.2, lo -> 127.0.2.3:PORT, lo: connection refused; 127.0.2.2, lo -> 127.0.1.3:PORT, lo: connection refused; 127.0.2.2, lo -> 127.0.2.3:PORT, lo: connection refused
  rank 1 (127.0.1.2, lo on host b) -> rank 3 (127.0.1.4:PORT, lo on host d): connection refused; 127.0.1.2, lo -> 127.0.2.4:PORT, lo: connection refused; 127.0.2.2, lo -> 127.0.1.4:PORT, lo: connection refused; 127.0.2.2, lo -> 127.0.2.4:PORT, lo: connection refused
hint: does a firewall stand between? --iface chooses the network, --port-range the ports that ranks listen at`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// One bad path does not matter: neither one that refuses, nor one that accepts all bytes and never answers.
func TestOneGoodPathIsEnough(t *testing.T) {
	closed := closedPort(t)
	for _, bad := range []string{"closed", "mute"} {
		for _, slot := range []string{"127.0.1.", "127.0.2."} {
			t.Run(bad+" "+slot, func(t *testing.T) {
				meshes := mustConnect(t, 3, func(cfg *Config) {
					cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort {
						if !strings.HasPrefix(at.String(), slot) {
							return at
						}
						if bad == "closed" {
							return closed
						}
						p := testutil.NewProxy(t, at.String())
						p.Next(testutil.Fault{}, testutil.Fault{Kind: testutil.Blackhole})
						return p.Addr()
					}
				})
				talk(t, meshes)
				if got := meshes[0].Conn(2).RemoteAddr().String(); strings.HasPrefix(got, slot) {
					t.Errorf("connected by %s", got)
				}
			})
		}
	}
}

// A peer that accepts and never answers is reported at the timeout, with that reason.
func TestMutePeer(t *testing.T) {
	testutil.WithLonger(t, 500*time.Millisecond, func(limit time.Duration) error {
		_, errs := connect(t, 3, func(cfg *Config) {
			cfg.Timeout = limit
			cfg.Listen = cfg.Listen[:1]
			cfg.Via = func(peer int, at netip.AddrPort) netip.AddrPort {
				if peer != 2 {
					return at
				}
				p := testutil.NewProxy(t, at.String())
				p.Next(testutil.Fault{Kind: testutil.Blackhole}, testutil.Fault{})
				return p.Addr()
			}
		})
		text := sameError(t, errs).Error()
		if strings.Count(text, "accepts connections but does not answer") != 2 || strings.Count(text, "\n") != 3 {
			return errors.New(text)
		}
		return nil
	})
}

func TestWrongKey(t *testing.T) {
	_, errs := connect(t, 3, func(cfg *Config) {
		if cfg.Rank == 1 {
			cfg.Key = []byte("another")
		}
	})
	text := sameError(t, errs).Error()
	if !strings.Contains(text, "on host a) -> rank 1 ") || !strings.Contains(text, ErrKey.Error()) ||
		!strings.Contains(text, "hint: have all ranks been started with the same key?") {
		t.Error(text)
	}
}

// The error of ranks without a common network states that.
func TestNoCommonNetwork(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, testutil.IPv6, err)
	ln.Close()
	_, errs := connect(t, 2, func(cfg *Config) {
		if cfg.Rank == 1 {
			cfg.Listen = addrs("::1")
		}
	})
	want := "rank 0 (on host a) -> rank 1 (on host b): no address of one can be reached from one of the other " +
		"(127.0.1.1, 127.0.2.1; ::1)"
	if text := sameError(t, errs).Error(); !strings.Contains(text, want) {
		t.Error(text)
	}
}

// All ranks name a rank that cannot begin.
func TestRankThatCannotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"address": {func(cfg *Config) { cfg.Listen = addrs("192.0.2.77") },
			"rank 1: listening at 192.0.2.77: listen tcp4 192.0.2.77:0"},
		"key":     {func(cfg *Config) { cfg.Key = nil }, "rank 1: no key"},
		"encrypt": {func(cfg *Config) { cfg.Encrypt = true }, "rank 1 has other settings than rank 0"},
		"none":    {func(cfg *Config) { cfg.Listen = nil }, "no address to listen at"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := connect(t, 3, func(cfg *Config) {
				if cfg.Rank == 1 {
					c.change(cfg)
				}
			})
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("rank %d: error %v, want %q", r, err, c.want)
				}
			}
		})
	}
}

// lostError is the error of an Exchange after a rank has died.
type lostError struct{ rank int }

func (e lostError) Error() string { return fmt.Sprintf("rank %d was killed", e.rank) }
func (e lostError) AtFault() int  { return e.rank }

// If a rank dies during Connect, before or after all listen, Connect ends on the others with the error of Exchange.
func TestRankDiesMeanwhile(t *testing.T) {
	for _, after := range []int{0, 1} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			ctx, die := context.WithCancelCause(t.Context())
			_, errs := connect(t, 3, func(cfg *Config) {
				inner, calls := cfg.Exchange, 0
				rank := cfg.Rank
				cfg.Exchange = func(_ context.Context, b []byte) ([][]byte, error) {
					if calls++; calls > after && rank == 2 {
						die(lostError{2})
						return nil, errors.New("dead")
					}
					return inner(ctx, b)
				}
			})
			for r, err := range errs[:2] {
				var lost interface{ AtFault() int }
				if !errors.As(err, &lost) || lost.AtFault() != 2 ||
					!strings.Contains(err.Error(), fmt.Sprintf("rank %d: connecting 3 ranks: exchange: rank 2 was killed", r)) {
					t.Errorf("rank %d: error %v", r, err)
				}
			}
		})
	}
}

// When the context ends, so does Connect, at any point, with the context's cause.
func TestContextEnds(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	begin := time.Now()
	_, errs := connectUntil(ctx, t, 2, func(cfg *Config) {
		cfg.Timeout = limit
		cfg.Listen = cfg.Listen[:1]
		cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort {
			time.AfterFunc(20*time.Millisecond, func() { end(cause) })
			p := testutil.NewProxy(t, at.String())
			p.Next(testutil.Fault{Kind: testutil.Stall}, testutil.Fault{})
			return p.Addr()
		}
	})
	for r, err := range errs {
		if !errors.Is(err, cause) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if d := time.Since(begin); d > limit/2 {
		t.Errorf("it took %v", d)
	}
}

// Very many lines are summarized.
func TestMatrixOfMany(t *testing.T) {
	const size = 200
	hostOf := func(r int) string { return fmt.Sprint("h", r/100) }
	var reports []Report
	for r := range size {
		one := Report{}
		for to := r + 1; to < size; to++ {
			t := Try{fmt.Sprintf("10.0.0.%d, eth0", r), fmt.Sprintf("10.0.0.%d:4000, eth0", to), "no route to host"}
			one.Add(r, to, hostOf, []Try{t})
		}
		reports = append(reports, one)
	}
	err := Unreachable(reports, hostOf, "--iface", "--port-range")
	text := err.Error()
	want := []string{
		"19900 pairs of ranks cannot connect:",
		"  rank 0 (10.0.0.0, eth0 on host h0) -> rank 1 (10.0.0.1:4000, eth0 on host h0): no route to host",
		"-> rank 101 (10.0.0.101:4000, eth0 on host h1)",
		"  and 19897 pairs more",
		"hint: ",
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
	if n := strings.Count(text, "\n"); n > maxLines+3 {
		t.Errorf("%d lines", n)
	}
	if Unreachable(make([]Report, 3), nil, "", "") != nil {
		t.Error("an error without a failure")
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("connect: %w", syscall.EHOSTUNREACH)}, "no route to host"},
		{fmt.Errorf("%w: %w", errNoConnection, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}),
			"timeout, no answer at all"},
		{fmt.Errorf("%w: %w", errNoConnection, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}),
			"timeout, no answer at all"},
		{fmt.Errorf("waiting: %w", os.ErrDeadlineExceeded), "it accepts connections but does not answer"},
		{fmt.Errorf("waiting: %w", errHungUp), "waiting: the other side closed the connection during the handshake"},
		{fmt.Errorf("TLS: %w", ErrKey), "TLS: " + ErrKey.Error()},
		{errNotTried, errNotTried.Error()},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// The reason why an address could not be reached is given in the system's words, or as a timeout.
func TestAttemptsInPlainWords(t *testing.T) {
	u := &UnreachedError{[]Attempted{
		{netip.MustParseAddrPort("10.0.0.1:7"), fmt.Errorf("%w: %w", errNoConnection, syscall.ECONNREFUSED)},
		{netip.MustParseAddrPort("[fd00::1]:7"), fmt.Errorf("%w: %w", errNoConnection, context.DeadlineExceeded)},
		{netip.MustParseAddrPort("10.0.0.2:7"), ErrKey},
	}}
	if got, want := u.Error(), "10.0.0.1:7: connection refused, [fd00::1]:7: timeout, no answer at all, 10.0.0.2:7: the "+
		"process there does not know the key of this job"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if u.AllFailedWith(ErrKey) || !(&UnreachedError{u.Attempts[2:]}).AllFailedWith(ErrKey) ||
		(&UnreachedError{}).AllFailedWith(ErrKey) {
		t.Error("the common error of all addresses")
	}
	if !u.Answered() || (&UnreachedError{u.Attempts[:2]}).Answered() {
		t.Error("who answered")
	}
}
