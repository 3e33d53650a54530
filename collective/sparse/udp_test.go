package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/kernel"
)

// Over UDP results are those over the links, bit by bit, whatever the blocks, the
// hosts, the type and the length, one call after the other on the same socket.
func TestUDP(t *testing.T) {
	t.Setenv(TransportVariable, "udp")
	places := [][]int{{0, 0, 1, 1}, oneHost(3), oneHost(1), {0, 1}}
	if testing.Short() {
		places = places[:2]
	}
	for _, hosts := range places {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
				i := 0
				for _, p := range patterns {
					for _, count := range []int{0, 1, 257, 5000, 70001}[i%2:] {
						size := []int{1, 16, 150}[i%3]
						if count > 6000 {
							size = max(size, 16)
						}
						if err := typed(t, i, c, p, Aggregators, operations[i/6%3], count, size, i/18%2 == 0); err != nil {
							return err
						}
						i++
					}
				}
				return nil
			})
		})
	}
}

// Blocks that do not fit a datagram are divided, calls over UDP and over the links
// follow each other, and Stats say what UDP brought.
func TestUDPStats(t *testing.T) {
	mustRun(t, []int{0, 1, 1}, func(_ *world, c *collective.Comm) error {
		const blocks = 200
		x := make([]float64, 256*blocks)
		for b := c.Rank(); b < blocks; b += 5 {
			x[256*b+b] = float64(b + 1)
		}
		want := make([]float64, len(x))
		if _, err := AllReduce(t.Context(), c, x, want, collective.Sum, Use(Aggregators), Over(Links)); err != nil {
			return err
		}
		for range 3 {
			got := make([]float64, len(x))
			s, err := AllReduce(t.Context(), c, x, got, collective.Sum, Over(UDP))
			if err != nil {
				return err
			}
			if !bytes.Equal(bytesOf(got), bytesOf(want)) {
				return fmt.Errorf("the result differs from that over the links: %v", s)
			}
			d := s.Datagrams
			if s.Transport != UDP || s.Form != Aggregators || s.Blocks != 2*blocks || s.NonZero != blocks/5 || d.Sent < 100 || d.Received < 100 || d.Refused != 0 || d.Lost > d.Resent+16 {
				return fmt.Errorf("%+v", s)
			}
			if text := s.String(); !strings.Contains(text, "over UDP: ") {
				return fmt.Errorf("%q", text)
			}
			if s, err = AllReduce(t.Context(), c, x, got, collective.Sum, Use(Aggregators)); err != nil || s.Transport != Links || s.Datagrams != (Datagrams{}) {
				return fmt.Errorf("over links: %+v, %v", s, err)
			}
		}
		return nil
	})
}

// Blocks of any size run over UDP: what does not fit a datagram is cut, into equal parts
// or not, and results are those over the links, bit by bit.
func TestUDPBlocks(t *testing.T) {
	mustRun(t, []int{0, 0, 1}, func(_ *world, c *collective.Comm) error {
		for _, size := range []int{349, 698, 5003, mostBlockBytes / 4} {
			x := make([]float32, 40000)
			for i := c.Rank() * 500; i < len(x); i += 3000 + i%7 {
				x[i] = float32(i) + 0.1
			}
			want, got := make([]float32, len(x)), make([]float32, len(x))
			if _, err := AllReduce(t.Context(), c, x, want, collective.Sum, Over(Links), BlockSize(size)); err != nil {
				return err
			}
			s, err := AllReduce(t.Context(), c, x, got, collective.Sum, Over(UDP), BlockSize(size), nil)
			if err != nil {
				return err
			}
			if !bytes.Equal(bytesOf(got), bytesOf(want)) || s.Transport != UDP || s.Blocks <= len(x)/min(size, 348) {
				return fmt.Errorf("blocks of %d: the result differs from that over the links, or is not of parts: %v", size, s)
			}
		}
		return nil
	})
	for size, want := range map[int]int{348: 348, 349: 56, 512: 256, 698: 79, 1000: 250, 5003: 212, 5000: 250, mostBlockBytes / 4: 256} {
		c := config{block: size, over: UDP}
		if got := c.blockFor(kernel.Float32); got != want {
			t.Errorf("blocks of %d float32 become such of %d, want %d", size, got, want)
		}
	}
}

// Lists of rows travel over UDP, too: several in a datagram, or in parts.
func TestUDPPairs(t *testing.T) {
	for _, width := range []int{1, 8, 64, 300, 349, 1000, 1009} {
		mustRun(t, oneHost(3), func(_ *world, c *collective.Comm) error {
			in := Pairs[float32]{Width: width}
			for i := c.Rank(); i < 300; i += 2 + c.Rank() {
				in.Indices = append(in.Indices, uint32(i*i))
				for k := range width {
					in.Values = append(in.Values, float32(i+k+c.Rank()))
				}
			}
			want, _, err := AllReducePairs(t.Context(), c, in, Use(Lists))
			if err != nil {
				return err
			}
			got, s, err := AllReducePairs(t.Context(), c, in, Over(UDP))
			if err != nil {
				return err
			}
			if fmt.Sprint(got.Indices) != fmt.Sprint(want.Indices) || !bytes.Equal(bytesOf(got.Values), bytesOf(want.Values)) || s.Transport != UDP {
				return fmt.Errorf("rows of %d: the result differs from that of lists (%v)", width, s)
			}
			return nil
		})
	}
}

// The environment says what carries the packets of calls that do not say it
// themselves, and must say something sensible.
func TestUDPVariable(t *testing.T) {
	for value, want := range map[string]Transport{"udp": UDP, "tcp": Links, "": Links} {
		t.Setenv(TransportVariable, value)
		mustRun(t, oneHost(2), func(_ *world, c *collective.Comm) error {
			x := make([]float32, 100)
			for _, call := range []struct {
				opts []Option
				want Transport
			}{
				{[]Option{Use(Aggregators)}, want},
				{nil, want},
				{[]Option{Use(Trees)}, Links},
				{[]Option{Use(Aggregators), Over(Links)}, Links},
				{[]Option{Over(UDP)}, UDP},
			} {
				s, err := AllReduce(t.Context(), c, x, x, collective.Sum, call.opts...)
				if err != nil || s.Transport != call.want || s.Transport == UDP && s.Form != Aggregators {
					return fmt.Errorf("%q: %+v, %w; want %v", value, s, err, call.want)
				}
			}
			return nil
		})
	}
	t.Setenv(TransportVariable, "pigeon")
	mustRun(t, oneHost(2), func(_ *world, c *collective.Comm) error {
		x := make([]float32, 100)
		if _, err := AllReduce(t.Context(), c, x, x, collective.Sum); !errors.Is(err, collective.ErrArgument) || !strings.Contains(err.Error(), "TREERUN_SPARSE_TRANSPORT=pigeon; want udp or tcp") {
			return fmt.Errorf("%v", err)
		}
		_, err := AllReduce(t.Context(), c, x, x, collective.Sum, Over(Links))
		return err
	})
}

// A rank that ends, aborts or closes while the others are in the exchange over UDP
// ends it for all, with the same cause.
func TestUDPStopped(t *testing.T) {
	for _, hosts := range [][]int{oneHost(3), {0, 1, 1}} {
		for name, stop := range map[string]struct {
			do   func(w *world, c *collective.Comm)
			kind error
		}{
			"lost":    {func(w *world, _ *collective.Comm) { w.Fail(2, errors.New("killed by SIGKILL")) }, collective.ErrRankLost},
			"aborted": {func(_ *world, c *collective.Comm) { c.Abort(errors.New("enough")) }, collective.ErrAborted},
			"closed":  {func(_ *world, c *collective.Comm) { c.Close() }, collective.ErrPeerClosed},
		} {
			t.Run(fmt.Sprint(hosts, name), func(t *testing.T) {
				errs := runRanks(t, hosts, func(w *world, c *collective.Comm) error {
					return reduceUntil(t, c, 1<<14, 30*time.Millisecond, func() { stop.do(w, c) }, Over(UDP))
				})
				wantStop(t, errs, stop.kind, 2, "")
			})
		}
	}
}
