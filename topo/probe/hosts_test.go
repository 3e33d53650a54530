package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/topo/network"
)

// hostJob is the measurement that a test binary takes part in as one of several hosts.
type hostJob struct {
	Host   int
	Addrs  []string // of all hosts, with ports
	Effort network.Effort
}

// hostResult is the result of a hostJob.
type hostResult struct {
	Findings network.Findings
	Took     time.Duration
}

// TestMain: with TREERUN_TEST_HOST the test binary measures as one host.
func TestMain(m *testing.M) {
	if job := os.Getenv("TREERUN_TEST_HOST"); job != "" {
		if err := runHost(job); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runHost measures as one host and writes the result to standard output.
func runHost(text string) error {
	var j hostJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	conns, err := dialAll(j)
	if err != nil {
		return err
	}
	begin := time.Now()
	f, err := Network(context.Background(), NetworkConfig{
		Host: j.Host, Hosts: len(j.Addrs), Effort: j.Effort, Timeout: 10 * time.Second,
		Turns: network.Turns(len(j.Addrs), j.Effort),
		Conn:  func(h int) net.Conn { return conns[h] }, Name: func(h int) string { return j.Addrs[h] },
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(hostResult{*f, time.Since(begin)})
}

// dialAll connects with all other hosts: the lower one dials and sends its number.
func dialAll(j hostJob) ([]net.Conn, error) {
	l, err := net.Listen("tcp", j.Addrs[j.Host])
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conns := make([]net.Conn, len(j.Addrs))
	for h := j.Host + 1; h < len(j.Addrs); h++ {
		for try := 0; conns[h] == nil; try++ {
			if conns[h], err = net.Dial("tcp", j.Addrs[h]); err != nil && try > 500 {
				return nil, err
			} else if err != nil {
				time.Sleep(10 * time.Millisecond) // the other host does not listen yet
			}
		}
		if _, err := fmt.Fprintf(conns[h], "%3d", j.Host); err != nil {
			return nil, err
		}
	}
	for range j.Host {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		var b [3]byte
		if _, err := c.Read(b[:]); err != nil {
			return nil, err
		}
		h, err := strconv.Atoi(strings.TrimSpace(string(b[:])))
		if err != nil || h < 0 || h >= j.Host || conns[h] != nil {
			return nil, errors.Join(err, fmt.Errorf("host %q", b))
		}
		conns[h] = c
	}
	return conns, nil
}
