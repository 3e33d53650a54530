//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// scrape returns the metrics of a job at an address, "" while there are none.
func scrape(address string) string {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// metric returns the value of the first metric in text with a name and labels that match, -1 for none.
func metric(text, pattern string) float64 {
	m := regexp.MustCompile(`(?m)^treerun_` + pattern + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return v
}

// awaitMetrics scrapes until f is true.
func awaitMetrics(t *testing.T, address, what string, f func(text string) bool) {
	t.Helper()
	text := ""
	for end := time.Now().Add(maxWait); text == "" || !f(text); time.Sleep(20 * time.Millisecond) {
		if text = scrape(address); time.Now().After(end) {
			t.Fatalf("no %s in\n%s", what, text)
		}
	}
}

// Readers of --metrics get the totals of the ranks of all hosts. The results of the job stay right, and it ends well,
// whatever readers do: some flood it, some send half of a request, some do not read, one is stopped and then
// killed. The ranks check every result.
func TestMetrics(t *testing.T) {
	address, over := testutil.FreeAddress(t), filepath.Join(t.TempDir(), "over")
	l := launchHosts(t, "-H", "a:2,b:1", "--metrics", address, installLooper(t, t.TempDir()), "-kind", "AllReduce",
		"-bytes", "100000", "-until", over)
	l.expect(3, "ready ")
	awaitMetrics(t, address, "totals", func(text string) bool {
		return metric(text, `ranks\{.*\}`) == 3 && metric(text, `ranks_alive\{.*\}`) == 3 &&
			metric(text, `calls_total\{call="AllReduce",host="b".*rank="2"\}`) > 10 &&
			metric(text, `busbw_bytes_per_second\{call="AllReduce",from_bytes="65536".*\}`) > 0 &&
			metric(text, `waiting_seconds_total\{.*rank="0"\}`) >= 0
	})
	reader := exec.Command(os.Args[0], address)
	reader.Args[0] = "scraper"
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	var stop atomic.Bool
	for i := range 40 {
		readers.Go(func() {
			for !stop.Load() {
				c, err := net.DialTimeout("tcp", address, time.Second)
				if err != nil {
					continue
				}
				request := "GET /metrics HTTP/1.1\r\nHost: x\r\n"
				if i%2 == 0 {
					request += "\r\n" + request + "\r\n" // and never reads
				}
				fmt.Fprint(c, request)
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				c.Close()
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	reader.Process.Signal(syscall.SIGSTOP)
	time.Sleep(200 * time.Millisecond)
	reader.Process.Kill()
	reader.Wait()
	stop.Store(true)
	readers.Wait()
	before := 0.0
	awaitMetrics(t, address, "further calls", func(text string) bool {
		calls := metric(text, `calls_total\{.*rank="0"\}`)
		if before == 0 {
			before = calls
		}
		return calls > before
	})
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.checkEnd(0)
	if text := scrape(address); text != "" {
		t.Errorf("metrics after the job:\n%s", text)
	}
}

// scraper reads metrics until it is killed.
func scraper() {
	for {
		_ = scrape(os.Args[1])
	}
}

// A rank that has a new process is counted, and an address that cannot be used is an error before the job starts.
func TestMetricsOfRestarts(t *testing.T) {
	address := testutil.FreeAddress(t)
	l := startTreerun(t, nil, "-np", "2", "--on-failure", "restart", "--metrics", address, "sh", "-c",
		`[ $TREERUN_EPOCH = 0 ] && exit 3; exec sleep 100`)
	awaitMetrics(t, address, "restarts", func(text string) bool { return metric(text, `restarts_total\{.*\}`) == 2 })
	other := startTreerun(t, nil, "-np", "1", "--metrics", address, "true")
	other.checkExit(125)
	if text := other.stderr.String(); !strings.Contains(text, "--metrics: listen tcp "+address) {
		t.Error(text)
	}
	l.signal(syscall.SIGKILL)
	l.checkEnd(128 + int(syscall.SIGKILL))
}

// The counters of the job keep the calls of a rank that is lost.
func TestMetricsOfLostRanks(t *testing.T) {
	address := testutil.FreeAddress(t)
	l := startTreerun(t, nil, "-np", "3", "--on-failure", "shrink", "--metrics", address, "lives", "1000000000",
		"2000:1:0:kill")
	awaitMetrics(t, address, "calls of the lost rank", func(text string) bool {
		all := metric(text, `size_calls_total\{call="AllReduce",from_bytes="8",.*\}`)
		of := func(rank string) float64 { return metric(text, `calls_total\{call="AllReduce",.*rank="`+rank+`"\}`) }
		return metric(text, `ranks\{.*\}`) == 2 && of("0") > 0 && of("2") > 0 && all >= of("0")+of("2")+1000
	})
	l.signal(syscall.SIGKILL)
	l.checkEnd(128 + int(syscall.SIGKILL))
}

// Programs that use treerun link neither the metrics nor the timeline.
func TestProgramsHaveNoMetrics(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../rank", "../../collective/...", "../../cuda/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, path := range deps {
		for _, bad := range []string{"github.com/prometheus/", "google.golang.org/", "go.opentelemetry.io/"} {
			if strings.HasPrefix(path, bad) {
				t.Errorf("a program that uses treerun links %s", path)
			}
		}
	}
	if len(deps) < 100 {
		t.Errorf("%d packages", len(deps))
	}
}

// With one treerun per host, that of node 0 has the metrics of all ranks and the file of --trace. Each of the others
// has the metrics of its own ranks.
func TestMetricsOfNodes(t *testing.T) {
	n, file, over := newNodes(t, 2), filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "over")
	looper := installLooper(t, t.TempDir())
	var all []*launched
	var addresses []string
	for i := range 2 {
		addresses = append(addresses, testutil.FreeAddress(t))
		all = append(all, n.start(i, "--ppn", "1", "--metrics", addresses[i], "--trace", file, looper, "-kind", "AllReduce",
			"-bytes", "100000", "-until", over))
	}
	all[0].expect(2, "ready ")
	called := func(text, rank string) bool { return metric(text, `calls_total\{.*rank="`+rank+`"\}`) > 10 }
	awaitMetrics(t, addresses[0], "totals of both", func(text string) bool {
		return called(text, "0") && called(text, "1")
	})
	awaitMetrics(t, addresses[1], "totals of node 1", func(text string) bool {
		return called(text, "1") && !called(text, "0") && metric(text, `ranks\{.*\}`) == 2
	})
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		l.checkEnd(0)
	}
	_, _, slicesOf, job := readTimeline(t, file)
	if len(slicesOf["rank 0"]) < 3 || len(slicesOf["rank 1"]) < 3 {
		t.Errorf("rank 0: %v, rank 1: %v, %v", slicesOf["rank 0"], slicesOf["rank 1"], job)
	}
}
