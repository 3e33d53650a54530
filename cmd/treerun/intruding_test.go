//go:build linux

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// runIntruder is the command intruder, a peer that jobs must tolerate: it connects to the ports of some hosts
// again and again without knowing the key, or repeats greetings that it has overheard. It
// ends with its standard input.
//
//	intruder -hosts 10.77.0.1,10.77.0.2 -ports 41000-41031 -n 1000
//
// connects to every open port, in a dozen ways, and prints "enough" after
// n connections to each host.
//
//	intruder -replay
//
// listens to the packets of its own host, as root may, repeats every greeting
// that goes to another host to the same address, with the proof that followed,
// and prints one line for each: "refused MAGIC" or "let in MAGIC".
func runIntruder() {
	f := flag.NewFlagSet("intruder", flag.ExitOnError)
	hosts := f.String("hosts", "", "addresses, between commas")
	ports := f.String("ports", "", "LO-HI")
	n := f.Int("n", 1000, "connections that are enough")
	replay := f.Bool("replay", false, "repeat captured greetings")
	if err := f.Parse(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if *replay {
		log.Fatal(captureGreetings(replayGreeting))
	}
	var lo, hi int
	if _, err := fmt.Sscanf(*ports, "%d-%d", &lo, &hi); err != nil {
		log.Fatal(err)
	}
	var all sync.WaitGroup
	for host := range strings.SplitSeq(*hosts, ",") {
		all.Go(func() { floodPorts(host, lo, hi, *n) })
	}
	all.Wait()
	fmt.Println("enough")
	select {}
}

// floodPorts connects to the ports in turn until it has made n connections.
func floodPorts(host string, lo, hi, n int) {
	var held []net.Conn // the latest of those that stay connected
	for i := 0; i < n; {
		open := 0
		for port := lo; port <= hi; port++ {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host, port), time.Second)
			if err != nil {
				continue
			}
			open++
			i++
			c.SetDeadline(time.Now().Add(time.Minute))
			if !actAs(c, i) {
				c.Close()
				continue
			}
			if held = append(held, c); len(held) > 500 {
				held[0].Close()
				held = held[1:]
			}
		}
		if open == 0 {
			time.Sleep(2 * time.Millisecond) // no rank listens yet
		}
	}
	go func() { // keep these connections open
		time.Sleep(time.Hour)
		fmt.Fprintln(io.Discard, held)
	}()
}

// greetings are the first bytes of ranks: those of package rank, and those of package transport/tcp.
var greetings = []string{
	"trnc\x01\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00" + strings.Repeat("\x00", 16) + strings.Repeat("n", 48),
	"trnc\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00" + strings.Repeat("x", 12) + strings.Repeat("n",
		48),
}

// actAs acts as intruder number i. It reports whether it stays connected.
func actAs(c net.Conn, i int) bool {
	hello := greetings[i/10%2]
	switch i % 10 {
	case 0: // silence
		return true
	case 1: // a port scan
		return false
	case 2:
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return false
	case 3:
		io.WriteString(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") // of TLS
		return true
	case 4:
		c.Write(bytes.Repeat([]byte{0xff, 0}, 1000+i))
		return true
	case 5: // a truncated hello, from a peer that disconnects
		io.WriteString(c, hello[:20])
		return false
	case 6: // and from a peer that stays connected
		io.WriteString(c, hello[:len(hello)-1])
		return true
	case 7: // a hello of a peer without the key
		io.WriteString(c, hello+strings.Repeat("p", 32))
		return true
	case 8: // one byte a second
		go func() {
			for b := range strings.SplitSeq(hello, "") {
				if _, err := io.WriteString(c, b); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		return true
	}
	c.(*net.TCPConn).SetLinger(0) // a reset
	return false
}
