package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// The two ends of a plain TCP flow are this program inside two hosts.
const (
	receiveCommand = "flow-receive"
	sendCommand    = "flow-send" // ADDRESS

	flowPort = "14999"
	flowTime = 500 * time.Millisecond
	flowHead = 0.3 // of the time that does not count: slow start, and bursts
)

func flowEnd(args []string) error {
	switch {
	case args[0] == receiveCommand:
		return receive()
	case len(args) == 2:
		return send(args[1])
	}
	return errors.New("usage: flow-send ADDRESS")
}

// receive takes one connection, and prints "ready", and then its payload in bits
// per second.
func receive() error {
	l, err := net.Listen("tcp", ":"+flowPort)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("ready")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	type mark struct {
		at    time.Duration
		bytes int
	}
	begin := time.Now()
	last := mark{}
	marks := []mark{last}
	for buf := make([]byte, 1<<18); err == nil; marks = append(marks, last) {
		var n int
		n, err = c.Read(buf)
		last = mark{time.Since(begin), last.bytes + n}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	for _, m := range marks {
		if m.at >= time.Duration(flowHead*float64(last.at)) && m.at < last.at {
			_, err = fmt.Printf("%.0f\n", float64(last.bytes-m.bytes)*8/(last.at-m.at).Seconds())
			return err
		}
	}
	return errors.New("nothing came")
}

func send(address string) error {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<18)
	for end := time.Now().Add(flowTime); time.Now().Before(end); {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	return c.Close()
}

// flow returns the rate of one flow between two hosts, in bits of payload per second.
func flow(h *nethosts.Hosts, self string, from, to int) (rate float64, err error) {
	recv := h.Command(to, self, receiveCommand)
	recv.Stderr = os.Stderr
	out, err := recv.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := recv.Start(); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = recv.Process.Kill()
		}
		if err = errors.Join(err, recv.Wait()); err != nil {
			err = fmt.Errorf("flow from host %d to %d: %w", from, to, err)
		}
	}()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return 0, err
	}
	sender := h.Command(from, self, sendCommand, net.JoinHostPort(h.Addr(to).String(), flowPort))
	sender.Stderr = os.Stderr
	if err := sender.Run(); err != nil {
		return 0, err
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}
