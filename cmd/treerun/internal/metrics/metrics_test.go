package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/record"
)

// serve serves the metrics of live, and returns their address.
func serve(t *testing.T, live func() (*recording.Live, error)) string {
	t.Helper()
	l, notice, err := Listen(":0")
	if err != nil || !strings.HasPrefix(notice, "metrics at http://127.0.0.1:") {
		t.Fatalf("%q, %v", notice, err)
	}
	served := make(chan struct{})
	go func() { Serve(l, live); close(served) }()
	t.Cleanup(func() { l.Close(); <-served })
	return l.Addr().String()
}

// scrape returns the metrics at an address.
func scrape(t *testing.T, address string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// state is a job of three ranks, of which one has ended.
func state() *recording.Live {
	total := record.Total{Row: int(call.AllReduce), Size: 21, Calls: 4, Bytes: 4 << 20, Bus: 6 << 20, Busy: 2e9, Least: 1,
		Predicted: 1e9, Waited: 5e8}
	first := total
	first.Bound = 5e8
	return &recording.Live{ID: "j1", Size: 3, Alive: []int{0, 1}, Restarts: 2, Silent: []string{"b"},
		Ranks: []recording.LiveRank{
			{Rank: 0, Host: "a", Head: &record.Head{Plans: 3, Totals: []record.Total{first}}},
			{Rank: 1, Host: "a", Head: &record.Head{Plans: 3, Totals: []record.Total{total,
				{Row: int(call.Barrier), Calls: 7, Busy: 1e6}}}}}}
}

// The metrics are those of the state of the job.
func TestMetrics(t *testing.T) {
	code, text := scrape(t, serve(t, func() (*recording.Live, error) { return state(), nil }))
	for _, want := range []string{
		`treerun_ranks{job="j1"} 3`, `treerun_ranks_alive{job="j1"} 2`, `treerun_restarts_total{job="j1"} 2`,
		`treerun_replans_total{job="j1"} 3`, `treerun_silent_hosts{job="j1"} 1`,
		`treerun_calls_total{call="AllReduce",host="a",job="j1",rank="1"} 4`,
		`treerun_call_bytes_total{call="AllReduce",host="a",job="j1",rank="0"} 4.194304e+06`,
		`treerun_waiting_seconds_total{call="AllReduce",host="a",job="j1",rank="0"} 0.5`,
		`treerun_call_seconds_total{call="Barrier",host="a",job="j1",rank="1"} 0.001`,
		`treerun_size_calls_total{call="AllReduce",from_bytes="1048576",job="j1"} 8`,
		`treerun_busbw_bytes_per_second{call="AllReduce",from_bytes="1048576",job="j1"} 3.145728e+06`,
		`treerun_bound_ratio{call="AllReduce",from_bytes="1048576",job="j1"} 0.25`,
		`treerun_predicted_seconds_total{call="AllReduce",from_bytes="1048576",job="j1"} 2`,
	} {
		if code != http.StatusOK || !strings.Contains(text, want+"\n") {
			t.Errorf("%d, %s is missing in\n%s", code, want, text)
		}
	}
}

// A job that is over has no metrics.
func TestOver(t *testing.T) {
	address := serve(t, func() (*recording.Live, error) { return nil, errors.New("the job is over") })
	if code, text := scrape(t, address); code != http.StatusInternalServerError || !strings.Contains(text, "job is over") {
		t.Errorf("%d: %s", code, text)
	}
}

// Readers that do not read, and many that do, cause few requests to the launcher, and others still get an answer.
func TestFlood(t *testing.T) {
	var requests atomic.Int32
	address := serve(t, func() (*recording.Live, error) {
		requests.Add(1)
		return state(), nil
	})
	began := time.Now()
	for range maxConnections / 2 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n") // and no end
	}
	for range 100 {
		if code, text := scrape(t, address); code != http.StatusOK {
			t.Fatalf("%d: %s", code, text)
		}
	}
	if n, most := requests.Load(), 1+int32(time.Since(began)/shareFor); n > most {
		t.Errorf("%d requests to the launcher, want at most %d", n, most)
	}
}

// Without a host the metrics are for this host only. Another address is named.
func TestListen(t *testing.T) {
	l, notice, err := Listen("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.Contains(notice, "all hosts that reach this address") {
		t.Errorf("notice %q", notice)
	}
	for _, bad := range []string{"9090", "127.0.0.1:no", "203.0.113.7:9090", ""} {
		if l, _, err := Listen(bad); err == nil {
			l.Close()
			t.Errorf("listens at %q", bad)
		}
	}
}

// The dashboard is valid JSON, and its queries use metrics that exist.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/grafana/treerun.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			GridPos struct{ W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	names, used := metricNames(), regexp.MustCompile(`treerun_[a-z_]+`)
	if len(names) != 16 {
		t.Errorf("metrics %q", names)
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || p.Title == "" || p.GridPos.W == 0 {
			t.Errorf("panel %+v", p)
		}
		for _, target := range p.Targets {
			for _, name := range used.FindAllString(target.Expr, -1) {
				if !slices.Contains(names, name) {
					t.Errorf("panel %q uses %s, which does not exist", p.Title, name)
				}
			}
		}
	}
}

// metricNames returns the names of all metrics.
func metricNames() []string {
	descs := make(chan *prometheus.Desc, 100)
	(&collector{}).Describe(descs)
	close(descs)
	var names []string
	for d := range descs {
		_, text, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(text, `"`)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
