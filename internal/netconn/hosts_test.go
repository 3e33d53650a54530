//go:build linux

package netconn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// farRank holds the parameters of a rank in its own process, passed in its environment.
type farRank struct {
	Rank, Size int
	Listen     []netip.Addr
	Ports      PortRange
	Timeout    time.Duration
	Encrypt    bool
}

const farRankVariable = "PEER_TEST_RANK"

// beFarRank runs such a rank: it exchanges blobs over stdin and stdout, connects, sends its number to every peer, and
// prints the received numbers with their devices, or its error.
func beFarRank(text string) {
	var r farRank
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	mesh, err := Connect(context.Background(), Config{
		Rank: r.Rank, Size: r.Size, Key: testKey, JobID: "far", Encrypt: r.Encrypt,
		Listen: r.Listen, Ports: r.Ports, Timeout: r.Timeout,
		HostOf: func(rank int) string { return fmt.Sprint("h", rank) },
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Exchange: func(_ context.Context, blob []byte) ([][]byte, error) {
			fmt.Printf("blob %x\n", blob)
			var all [][]byte
			for range r.Size {
				line, err := in.ReadString('\n')
				if err != nil {
					return nil, err
				}
				b, err := hex.DecodeString(strings.TrimSpace(line))
				if err != nil {
					return nil, err
				}
				all = append(all, b)
			}
			return all, nil
		},
	})
	if err != nil {
		fmt.Printf("error %q\n", err)
		return
	}
	defer mesh.Close()
	for _, p := range mesh.Peers() {
		fmt.Fprintf(mesh.Conn(p), "%4d", r.Rank)
	}
	for _, p := range mesh.Peers() {
		got := make([]byte, 4)
		c := mesh.Conn(p)
		_, err := io.ReadFull(c, got)
		fmt.Printf("peer %s %s %s %v\n", strings.TrimSpace(string(got)), c.Device(),
			c.RemoteAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr(), err)
	}
}

// runFar runs one rank on every host and returns the last line that each printed, its peers or its error, and the log.
func runFar(t *testing.T, h *nethosts.Hosts, change func(*farRank)) (output []string, logged string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := h.Len()
	e := newExchange(n)
	output = make([]string, n)
	var log logs
	var all sync.WaitGroup
	for i := range n {
		r := farRank{Rank: i, Size: n, Timeout: limit / 2}
		change(&r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.Command(i, exe)
		cmd.Env = append(os.Environ(), farRankVariable+"="+string(text))
		cmd.Stderr = &log
		all.Go(func() { output[i] = follow(t, cmd, e.of(i)) })
	}
	all.Wait()
	return output, log.all.String()
}

// follow runs a far rank, exchanges blobs for it, and returns its last line.
func follow(t *testing.T, cmd *exec.Cmd, exchange func(context.Context, []byte) ([][]byte, error)) string {
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return ""
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return ""
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	var last bytes.Buffer
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		blob, ok := strings.CutPrefix(lines.Text(), "blob ")
		if !ok {
			last.WriteString(lines.Text() + "\n")
			continue
		}
		b, err := hex.DecodeString(blob)
		if err != nil {
			t.Error(err)
		}
		blobs, err := exchange(ctx, b)
		if err != nil {
			t.Error(err)
			break
		}
		for _, b := range blobs {
			fmt.Fprintf(in, "%x\n", b)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return last.String()
}

func twoNetworks(t *testing.T) *nethosts.Hosts {
	return nethosts.Up(t, 3, nethosts.Options{Prefix: "peer", Networks: []nethosts.Network{{}, {}}})
}

// Ranks on several hosts find the network that works, whichever it is, and do not mention the others. An address that
// all hosts have, as container bridges do, has no effect.
func TestHostsFindTheNetworkThatWorks(t *testing.T) {
	h := twoNetworks(t)
	for i := range h.Len() {
		for _, args := range [][]string{
			{"link", "add", "docker0", "type", "bridge"}, {"addr", "add", "172.17.0.1/16", "dev", "docker0"},
			{"link", "set", "docker0", "up"},
		} {
			if out, err := h.Command(i, "ip", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
	}
	bridge := netip.MustParseAddr("172.17.0.1")
	for _, c := range []struct {
		name   string
		broken []int // networks of host 1
		listen func(i int) []netip.Addr
		device string
	}{
		{"all", nil, func(i int) []netip.Addr { return []netip.Addr{bridge, h.AddrIn(0, i), h.AddrIn(1, i)} }, ""},
		{"first broken", []int{0}, func(i int) []netip.Addr { return []netip.Addr{h.AddrIn(0, i), h.AddrIn(1, i), bridge} },
			"eth1"},
		{"second broken", []int{1}, func(i int) []netip.Addr { return []netip.Addr{h.AddrIn(1, i), h.AddrIn(0, i)} }, "eth0"},
		{"version 6", nil, func(i int) []netip.Addr { return []netip.Addr{h.Addr6In(1, i)} }, "eth1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range c.broken {
				if err := h.Unplug(k, 1); err != nil {
					t.Fatal(err)
				}
				defer h.Plug(k, 1)
			}
			output, logged := runFar(t, h, func(r *farRank) {
				r.Listen = c.listen(r.Rank)
				r.Ports = PortRange{Lo: 40000, Hi: 40010} // so all listen at the same ports
			})
			for i, s := range output {
				if strings.Count(s, "<nil>\n") != 2 || strings.Count(s, "\n") != 2 {
					t.Errorf("rank %d: %s", i, s)
				}
				if i == 1 && c.device != "" && strings.Count(s, " "+c.device+" ") != 2 {
					t.Errorf("rank 1, want %s: %s", c.device, s)
				}
			}
			if logged != "" {
				t.Errorf("logged:\n%s", logged)
			}
		})
	}
}

// All three ranks name an unreachable host in their error, with the kernel's reason.
func TestHostsThatAreCutOff(t *testing.T) {
	h := twoNetworks(t)
	if err := h.Split(0, []int{0, 2}, []int{1}); err != nil {
		t.Fatal(err)
	}
	output, _ := runFar(t, h, func(r *farRank) {
		r.Listen = []netip.Addr{h.Addr(r.Rank)}
	})
	for i, s := range output {
		for _, want := range []string{
			fmt.Sprintf("netconn: rank %d: connecting 3 ranks: 2 pairs of ranks cannot connect:", i),
			`\n  rank 0 (10.77.0.1, eth0 on host h0) -> rank 1 (10.77.0.2:`, `, eth0 on host h1): no route to host\n`,
			`\n  rank 1 (10.77.0.2, eth0 on host h1) -> rank 2 (10.77.0.3:`, `, eth0 on host h2): no route to host\n`,
			"hint: does a firewall stand between?",
		} {
			if !strings.Contains(s, want) {
				t.Errorf("rank %d does not report %s: %s", i, want, s)
			}
		}
	}
}

// A firewall that drops packets is a timeout.
func TestFirewall(t *testing.T) {
	h := twoNetworks(t)
	// A route to a black hole on the way back has the effect of a filter that drops packets.
	if out, err := h.Command(1, "ip", "route", "add", "blackhole", "10.77.0.1/32").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testutil.WithLonger(t, 2*time.Second, func(limit time.Duration) error {
		output, _ := runFar(t, h, func(r *farRank) {
			r.Listen = []netip.Addr{h.Addr(r.Rank)}
			r.Timeout = limit
		})
		for i, s := range output {
			if !strings.Contains(s, "two ranks cannot connect:") ||
				!strings.Contains(s, "eth0 on host h1): timeout, no answer at all") {
				return fmt.Errorf("rank %d: %s", i, s)
			}
		}
		return nil
	})
}
