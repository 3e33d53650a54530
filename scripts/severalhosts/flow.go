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
	sendCommand    = "flow-send" // ADDRESS SECONDS

	flowPort = "14999"
	flowTime = 500 * time.Millisecond
	flowHead = 0.3 // of the time that does not count: slow start, and bursts
)

func flowEnd(args []string) error {
	if args[0] == receiveCommand {
		return receive(os.Stdout)
	}
	if len(args) != 3 {
		return errors.New("flow-send ADDRESS SECONDS")
	}
	seconds, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	return send(args[1], time.Duration(seconds*float64(time.Second)))
}

// receive takes one connection, and prints "ready", and then its payload in bits
// per second.
func receive(w io.Writer) error {
	l, err := net.Listen("tcp", ":"+flowPort)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(w, "ready")
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
	marks := []mark{{}}
	buf := make([]byte, 1<<18)
	for total := 0; ; {
		n, err := c.Read(buf)
		total += n
		marks = append(marks, mark{time.Since(begin), total})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	last := marks[len(marks)-1]
	for _, m := range marks {
		if m.at >= time.Duration(flowHead*float64(last.at)) && m.at < last.at {
			_, err = fmt.Fprintf(w, "%.0f\n", float64(last.bytes-m.bytes)*8/(last.at-m.at).Seconds())
			return err
		}
	}
	return errors.New("nothing came")
}

func send(address string, d time.Duration) error {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<18)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	return c.Close()
}

// flow returns the rate of one flow between two hosts, in bits of payload per
// second.
func flow(h *nethosts.Hosts, self string, from, to int) (float64, error) {
	recv := h.Command(to, self, receiveCommand)
	recv.Stderr = os.Stderr
	out, err := recv.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := recv.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReader(out)
	_, err = lines.ReadString('\n')
	if err == nil {
		sender := h.Command(from, self, sendCommand, net.JoinHostPort(h.Addr(to).String(), flowPort), fmt.Sprint(flowTime.Seconds()))
		sender.Stderr = os.Stderr
		err = sender.Run()
	}
	if err != nil {
		_ = recv.Process.Kill()
		return 0, errors.Join(fmt.Errorf("flow from host %d to %d: %w", from, to, err), recv.Wait())
	}
	line, err := lines.ReadString('\n')
	if err := errors.Join(err, recv.Wait()); err != nil {
		return 0, fmt.Errorf("flow from host %d to %d: %w", from, to, err)
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}
