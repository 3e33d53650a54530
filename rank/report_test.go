//go:build linux

package rank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/testutil"
)

// Addresses of one link are tried on every device; others as they are.
func TestAddressesOfOneLinkAreTriedEverywhere(t *testing.T) {
	at := func(texts ...string) (all []netip.AddrPort) {
		for _, s := range texts {
			all = append(all, netip.MustParseAddrPort(s))
		}
		return all
	}
	got := reachable(at("10.0.0.1:7", "[fe80::1]:7", "[fe80::2%eth9]:7"), []string{"eth0", "ib0"})
	if want := at("10.0.0.1:7", "[fe80::1%eth0]:7", "[fe80::1%ib0]:7", "[fe80::2%eth9]:7"); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// The error of a rank that does not reach rank 0 names the address that it tried, and its own address.
func TestRankThatReachesNobodySaysWhere(t *testing.T) {
	t.Parallel()
	testutil.WithLonger(t, 300*time.Millisecond, func(limit time.Duration) error {
		j := newTestJob(t, 3)
		seed := testutil.FreeAddress(t)
		cfg := j.seedConfig(2, seed)
		cfg.parsed.StartTimeout = limit
		_, err := start(t.Context(), cfg)
		want := "rank 2 (127.0.0.1, lo on host here) -> rank 0 (" + seed + "): connection refused"
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "ranks 0,1 of 3 have not joined") {
			return fmt.Errorf("error %w\nwant one with %s", err, want)
		}
		return nil
	})
}

// Where the launcher watches the ranks, it reports that rank 0 has sent no address; else each rank does.
func TestReportsOfRank0(t *testing.T) {
	t.Parallel()
	testutil.WithLonger(t, 300*time.Millisecond, func(limit time.Duration) (wrong error) {
		j := newTestJob(t, 3)
		ends := j.launch()
		for r, page := range []*status.Page{1: nil, 2: status.NewPage(make([]byte, status.Bytes))} {
			if r == 0 {
				continue
			}
			var log bytes.Buffer
			cfg := j.config(r, ends[r])
			cfg.Page, cfg.parsed.StartTimeout, cfg.waitReport = page, limit, limit/4
			cfg.log = slog.New(slog.NewTextHandler(&log, nil))
			_, err := start(t.Context(), cfg)
			reported := strings.Contains(log.String(), "has not sent its address yet")
			if !errors.Is(err, context.DeadlineExceeded) || reported != (page == nil) {
				wrong = errors.Join(wrong, fmt.Errorf("rank %d: error %w, and reports\n%s", r, err, &log))
			}
		}
		return wrong
	})
}

// localhost may be either loopback address, or both.
func TestSeedsAtTheLoopback(t *testing.T) {
	t.Parallel()
	_, port, _ := strings.Cut(testutil.FreeAddress(t), ":")
	for _, host := range []string{"localhost", "[::1]", "127.0.0.1"} {
		j := newTestJob(t, 3)
		errs := j.each(func(r int) (err error) {
			j.worlds[r], err = start(t.Context(), j.seedConfig(r, host+":"+port))
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		if got := j.worlds[1].ListenAddrs(); len(got) != 1 || !got[0].IsLoopback() {
			t.Errorf("%s: offers %v", host, got)
		}
		j.mustGather(constant(100))
		j.close()
	}
}

// Ranks of one host share a range of ports; too small a range is an error.
func TestPortRange(t *testing.T) {
	t.Parallel()
	lo := testutil.FreePorts(200)
	withRange := func(j *testJob, n int) []error {
		ends := j.launch()
		return j.each(func(r int) (err error) {
			cfg := j.config(r, ends[r])
			cfg.Settings = map[string]string{"port-range": fmt.Sprintf("%d-%d", lo, lo+n-1)}
			j.worlds[r], err = start(t.Context(), cfg)
			return err
		})
	}
	j := newTestJob(t, 4)
	err := errors.Join(withRange(j, 200)...) // most are free
	t.Cleanup(j.close)
	if err != nil {
		t.Fatal(err)
	}
	found := map[uint16]bool{}
	for _, w := range j.worlds {
		at := netip.MustParseAddrPort(w.members.address(w.Rank()))
		found[at.Port()] = true
		if int(at.Port()) < lo || int(at.Port()) >= lo+200 {
			t.Errorf("rank %d listens at %v", w.Rank(), at)
		}
	}
	if len(found) != 4 {
		t.Errorf("ports %v", found)
	}
	for _, err := range withRange(newTestJob(t, 4), 3) {
		want := fmt.Sprintf("--port-range %d-%d has 3 ports, and the 4 ranks of this host need one each: 4 at least", lo,
			lo+2)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	several := newTestJob(t, 4)
	several.hosts = []int{0, 0, 1, 1}
	for _, err := range withRange(several, 3) {
		want := fmt.Sprintf("--port-range %d-%d has 3 ports, and the 2 ranks of this host need two each, one of them for "+
			"data between hosts: 4 at least", lo, lo+2)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("several hosts: error %v, want %s", err, want)
		}
	}
	ln, err := listen(loopback4, 0, netconn.PortRange{}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := int(netip.MustParseAddrPort(ln.Addr().String()).Port())
	_, err = listen(loopback4, 0, netconn.PortRange{Lo: taken, Hi: taken}, 0, 0)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "are taken (hint: --port-range") {
		t.Errorf("a range that is taken: error %v", err)
	}
}
