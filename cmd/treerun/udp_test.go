package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/treerun/treerun/docs/nethosts"
)

// udpRow is what a row of bench says of sparse calls over UDP.
type udpRow struct {
	Wrong  *int64 `json:"wrong"`
	Sparse struct {
		Form      string `json:"form"`
		Transport string `json:"transport"`
		Datagrams int64  `json:"datagrams"`
		Resent    int64  `json:"resent"`
		Lost      int64  `json:"lost"`
	} `json:"sparse"`
}

// wantUDPRows checks that bench has printed so many rows of sparse calls over UDP,
// whose results are right, and returns what was lost and sent again.
func wantUDPRows(t *testing.T, lines []string, want int) (lost, resent int64) {
	t.Helper()
	if len(lines) != want {
		t.Errorf("%d rows, want %d", len(lines), want)
	}
	for _, line := range lines {
		var r udpRow
		if err := json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if s := r.Sparse; r.Wrong == nil || *r.Wrong != 0 || s.Form != "aggregators" || s.Transport != "udp" || s.Datagrams == 0 {
			t.Errorf("%s", line)
		}
		lost += r.Sparse.Lost
		resent += r.Sparse.Resent
	}
	return lost, resent
}

// Between hosts whose network drops what does not fit short queues, sparse calls over
// UDP lose datagrams and still have the right results.
func TestUDPBetweenHosts(t *testing.T) {
	launcher, _ := chaosBinaries(t)
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "u", Networks: []nethosts.Network{{Rates: []string{"100mbit"}}}})
	for i := range h.Len() { // queues of 17 datagrams; segments of TCP go one by one, so that it gets on
		if msg, err := h.Command(i, "ip", "link", "set", "dev", h.Device(0), "gso_max_segs", "1").CombinedOutput(); err != nil {
			t.Fatalf("ip on host %d: %v: %s", i, err, msg)
		}
		if msg, err := h.Command(i, "tc", "qdisc", "replace", "dev", h.Device(0), "root", "tbf", "rate", "100mbit", "burst", "5000", "limit", "20000").CombinedOutput(); err != nil {
			t.Fatalf("tc on host %d: %v: %s", i, err, msg)
		}
	}
	l := launch(t, func(cmd *exec.Cmd) {
		cmd.Path = launcher
		cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
	}, "bench", "--launch-agent", h.Agent(), "-H", "u0,u1,u2", "--collective", "sparse-allreduce", "--sparse-transport", "udp",
		"-b", "256K", "-e", "256K", "-n", "1", "-w", "1", "--density", "0.05,1", "-d", "float32", "--in-place=no", "--json", "-")
	l.ends(0)
	if lost, resent := wantUDPRows(t, l.seen, 2); lost == 0 || resent == 0 {
		t.Errorf("%d datagrams lost, %d packets sent again", lost, resent)
	}
	for i := range h.Len() {
		if err := empty(h, i); err != nil {
			t.Error(err)
		}
	}
}
