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
	"log"
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
	log.SetFlags(0)
	log.SetPrefix("flood: ")
	switch mode := os.Args[1]; mode {
	case "rank":
		calls(number())
	case "listen":
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		check(err)
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		for {
			c, err := l.Accept()
			check(err)
			c.Close()
		}
	case "connect":
		flood(number())
	default:
		log.Fatalf("unknown mode %q", mode)
	}
}

// number returns the argument of the mode.
func number() int {
	n, err := strconv.Atoi(os.Args[2])
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// calls makes calls of AllReduce for some seconds.
func calls(seconds int) {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	defer w.Close()
	c, err := collective.New(ctx, w)
	check(err)
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
		check(collective.AllReduce(ctx, c, x, x, collective.Sum))
		count++
		if now := time.Now(); c.Rank() == 0 && now.After(next) {
			fmt.Println("calls", count)
			count, next = 0, now.Add(time.Second)
		}
	}
	check(c.Close())
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
func flood(port int) {
	at := &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	reset := syscall.Linger{Onoff: 1} // closes at once, and keeps no port
	for n, next := 0, time.Now().Add(time.Second); ; n++ {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		check(err)
		_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &reset)
		check(syscall.Connect(fd, at))
		_ = syscall.Close(fd)
		if time.Now().After(next) {
			fmt.Println("connections", n)
			n, next = 0, time.Now().Add(time.Second)
		}
	}
}
