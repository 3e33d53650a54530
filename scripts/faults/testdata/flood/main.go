// Flood is the program of scripts/faults/flood.sh: a rank that counts its calls, an idle listener, and a flood of
// connections at a port.
//
//	flood rank SECONDS     makes calls of AllReduce; rank 0 prints its port and, every second, the calls of that second
//	flood listen           prints a port, and closes all connections to it
//	flood connect PORT     connects and disconnects, until it is killed
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

func run(mode string, args []string) error {
	switch mode {
	case "rank":
		seconds, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return calls(seconds)
	case "listen":
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			c.Close()
		}
	case "connect":
		port, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return flood(port)
	}
	return fmt.Errorf("unknown mode %q", mode)
}

// calls makes calls of AllReduce for some seconds.
func calls(seconds int) error {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println("ports", strings.Join(listening(), " "))
	}
	x := make([]float32, 1000)
	count, next, end := 0, time.Now().Add(time.Second), time.Now().Add(time.Duration(seconds)*time.Second)
	for x[0] >= 0 {
		for i := range x {
			x[i] = 1
		}
		if c.Rank() == 0 && time.Now().After(end) {
			x[0] = -1000
		}
		if err := collective.AllReduce(ctx, c, x, x, collective.Sum); err != nil {
			return err
		}
		count++
		if now := time.Now(); c.Rank() == 0 && now.After(next) {
			fmt.Println("calls", count)
			count, next = 0, now.Add(time.Second)
		}
	}
	return c.Close()
}

// listening returns the ports of IPv4 at which this process listens.
func listening() (ports []string) {
	own := map[string]bool{}
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
	}
	text, _ := os.ReadFile("/proc/self/net/tcp")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 9 && f[3] == "0A" && own[f[9]] { // TCP_LISTEN
			_, hex, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(hex, 16, 16)
			if err == nil {
				ports = append(ports, strconv.FormatUint(n, 10))
			}
		}
	}
	return ports
}

// flood connects to a port of the loopback as fast as one thread can.
func flood(port int) error {
	at := &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	reset := syscall.Linger{Onoff: 1} // closes at once, and keeps no port
	for n, next := 0, time.Now().Add(time.Second); ; n++ {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &reset)
		if err := syscall.Connect(fd, at); err != nil {
			return err
		}
		_ = syscall.Close(fd)
		if time.Now().After(next) {
			fmt.Println("connections", n)
			n, next = 0, time.Now().Add(time.Second)
		}
	}
}
