// Package metrics serves the state and the totals of a running job to Prometheus. It requests them from the launcher
// when it is scraped, at most twice a second for all readers together, and keeps a bounded number of connections: a
// reader can neither stop nor delay the job.
package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/internal/record"
)

const (
	// shareFor is the time for which scrapes get the same answer.
	shareFor = 500 * time.Millisecond

	// readerLimit bounds the time of a reader for its request, and for the answer.
	readerLimit = 10 * time.Second

	// pause is the time before a connection is accepted, and before an answer: readers that flood get some hundred a
	// second, and take little of a core from the ranks.
	pause = 5 * time.Millisecond

	maxConnections = 32
)

// CheckAddress returns an error for what is no HOST:PORT.
func CheckAddress(address string) (port int, err error) {
	_, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = net.LookupPort("tcp", text)
	}
	if err != nil {
		return 0, errors.New("want HOST:PORT, or :PORT for readers on this host")
	}
	return port, nil
}

// Listen returns a listener for metrics at HOST:PORT: without a host, of this host only. notice describes who can read,
// "" for programs on this host only.
func Listen(address string) (l net.Listener, notice string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)); err != nil {
		return nil, "", err
	}
	at := l.Addr().String()
	if a, err := netip.ParseAddrPort(at); err != nil || !a.Addr().IsLoopback() {
		notice = fmt.Sprintf("metrics at http://%s/metrics: all hosts that reach this address can read them, without a "+
			"password", at)
	} else if port == "0" {
		notice = fmt.Sprintf("metrics at http://%s/metrics", at)
	}
	return l, notice, nil
}

// Serve serves metrics until l is closed. live returns the state of the job, or an error once that is over.
func Serve(l net.Listener, live func() (*recording.Live, error)) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{live: live})
	mux := http.NewServeMux()
	mux.Handle("/metrics", &shared{handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})})
	server := &http.Server{Handler: mux, ReadTimeout: readerLimit, WriteTimeout: readerLimit, IdleTimeout: readerLimit,
		MaxHeaderBytes: 8 << 10}
	_ = server.Serve(netutil.LimitListener(paced{l}, maxConnections)) // ends with l
}

// paced accepts a bounded number of connections in a second.
type paced struct{ net.Listener }

// Accept waits for a connection.
func (p paced) Accept() (net.Conn, error) {
	time.Sleep(pause)
	return p.Listener.Accept()
}

// shared gives all readers the answer of a handler to one of them, as text, for some time.
type shared struct {
	handler http.Handler

	mu     sync.Mutex
	since  time.Time
	answer *answer
}

// ServeHTTP implements http.Handler.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	time.Sleep(pause) // all others wait
	if s.answer == nil || time.Since(s.since) > shareFor {
		s.answer = &answer{header: make(http.Header), code: http.StatusOK}
		s.handler.ServeHTTP(s.answer, &http.Request{Method: http.MethodGet, URL: r.URL})
		s.since = time.Now()
	}
	a := s.answer
	s.mu.Unlock()
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.code)
	_, _ = w.Write(a.Bytes()) // a reader that is gone needs none
}

// answer is an http.ResponseWriter that keeps the answer.
type answer struct {
	header http.Header
	code   int
	bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }

// collector makes metrics of the state of a job.
type collector struct {
	live func() (*recording.Live, error)
}

// describe makes a description of a metric.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("treerun_"+name, help, append([]string{"job"}, labels...), nil)
}

// metrics are all that there are.
type metrics struct {
	ranks, alive, restarts, replans, silent *prometheus.Desc

	calls, bytes, seconds, waiting *prometheus.Desc // by rank and call

	sizeCalls, sizeSeconds, busBytes, predicted, bound *prometheus.Desc // by call and size
	busbw, share                                       *prometheus.Desc // likewise
}

// all returns the descriptions of all metrics.
var all = sync.OnceValue(func() *metrics {
	byRank, bySize := []string{"rank", "host", "call"}, []string{"call", "from_bytes"}
	return &metrics{
		ranks:    describe("ranks", "Number of ranks of the job."),
		alive:    describe("ranks_alive", "Number of ranks that run."),
		restarts: describe("restarts_total", "Number of processes that have replaced others of the same rank."),
		replans:  describe("replans_total", "Number of times that plans were made for links that were measured again."),
		silent:   describe("silent_hosts", "Number of hosts that have not answered to this scrape."),
		calls:    describe("calls_total", "Calls of a rank that have begun.", byRank...),
		bytes:    describe("call_bytes_total", "Bytes of the messages of these calls, with all their parts.", byRank...),
		seconds:  describe("call_seconds_total", "Time of a rank in these calls, with the time that it waited.", byRank...),
		waiting:  describe("waiting_seconds_total", "Time of a rank in these calls that it waited for others.", byRank...),
		sizeCalls: describe("size_calls_total", "Calls of all ranks with this number of bytes, or up to twice as many.",
			bySize...),
		sizeSeconds: describe("size_call_seconds_total", "Time of all ranks in these calls.", bySize...),
		busBytes: describe("bus_bytes_total",
			"Bytes as nccl-tests counts them for busbw, over all ranks: divided by the time they are the busbw.", bySize...),
		predicted: describe("predicted_seconds_total", "Predicted time of these calls, over all ranks.", bySize...),
		bound: describe("bound_seconds_total",
			"Time of these calls at the highest rate that any plan could reach, over the ranks that know it.", bySize...),
		busbw: describe("busbw_bytes_per_second", "busbw of these calls since the beginning of the ranks.", bySize...),
		share: describe("bound_ratio",
			"The rate of these calls divided by the highest rate that any plan could reach, since the beginning.", bySize...),
	}
})

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	m := all()
	for _, d := range []*prometheus.Desc{m.ranks, m.alive, m.restarts, m.replans, m.silent, m.calls, m.bytes, m.seconds,
		m.waiting, m.sizeCalls, m.sizeSeconds, m.busBytes, m.predicted, m.bound, m.busbw, m.share} {
		out <- d
	}
}

// sums are the totals of calls.
type sums struct {
	calls, bytes, bus, busy, waited, predicted, bound int64
	bounded                                           int64 // the time of calls whose bound is known
}

func (s *sums) add(t *record.Total) {
	s.calls, s.bytes, s.bus, s.busy, s.waited = s.calls+t.Calls, s.bytes+t.Bytes, s.bus+t.Bus, s.busy+t.Busy,
		s.waited+t.Waited
	s.predicted, s.bound = s.predicted+t.Predicted, s.bound+t.Bound
	if t.Bound > 0 {
		s.bounded += t.Busy
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := all()
	l, err := c.live()
	if err != nil {
		out <- prometheus.NewInvalidMetric(m.ranks, err)
		return
	}
	add := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{l.ID}, labels...)...)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	add(m.ranks, gauge, float64(l.Size))
	add(m.alive, gauge, float64(len(l.Alive)))
	add(m.restarts, counter, float64(l.Restarts))
	add(m.silent, gauge, float64(len(l.Silent)))
	replans := uint64(0)
	type sized struct {
		call string
		from int64
	}
	sizes := map[sized]*sums{}
	for _, r := range l.Ranks {
		replans = max(replans, r.Plans)
		calls := map[string]*sums{}
		for i := range r.Totals {
			t := &r.Totals[i]
			of(calls, t.Sort()).add(t)
			of(sizes, sized{t.Sort(), t.From()}).add(t)
		}
		for call, s := range calls {
			labels := []string{strconv.Itoa(r.Rank), r.Host, call}
			add(m.calls, counter, float64(s.calls), labels...)
			add(m.bytes, counter, float64(s.bytes), labels...)
			add(m.seconds, counter, seconds(s.busy), labels...)
			add(m.waiting, counter, seconds(s.waited), labels...)
		}
	}
	for _, h := range l.Ended { // counters of the job do not fall
		replans = max(replans, h.Plans)
		for i := range h.Totals {
			of(sizes, sized{h.Totals[i].Sort(), h.Totals[i].From()}).add(&h.Totals[i])
		}
	}
	add(m.replans, counter, float64(replans))
	for k, s := range sizes {
		labels := []string{k.call, strconv.FormatInt(k.from, 10)}
		add(m.sizeCalls, counter, float64(s.calls), labels...)
		add(m.sizeSeconds, counter, seconds(s.busy), labels...)
		add(m.busBytes, counter, float64(s.bus), labels...)
		add(m.predicted, counter, seconds(s.predicted), labels...)
		add(m.bound, counter, seconds(s.bound), labels...)
		if s.busy > 0 {
			add(m.busbw, gauge, float64(s.bus)/seconds(s.busy), labels...)
		}
		if s.bounded > 0 {
			add(m.share, gauge, float64(s.bound)/float64(s.bounded), labels...)
		}
	}
}

// of returns the sums of a key.
func of[K comparable](all map[K]*sums, key K) *sums {
	s := all[key]
	if s == nil {
		s = new(sums)
		all[key] = s
	}
	return s
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
