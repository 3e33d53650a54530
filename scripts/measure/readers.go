package main

import (
	"fmt"
	"io"
	"net"
	"time"
)

// readers reads metrics at an address in four ways, until this process is ended: one connection after the other, as
// fast as answers come; connections that send half of a request; ones that never read, like those of a stopped reader;
// and ones that are reset before the answer, like those of a killed reader.
func readers(args []string) {
	address := args[0]
	const request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for _, way := range []func(net.Conn){
		func(c net.Conn) {
			fmt.Fprint(c, request)
			_, _ = io.Copy(io.Discard, c)
		},
		func(c net.Conn) {
			fmt.Fprint(c, request[:30])
			time.Sleep(time.Second)
		},
		func(c net.Conn) {
			fmt.Fprint(c, request)
			time.Sleep(time.Second)
		},
		func(c net.Conn) {
			fmt.Fprint(c, request)
			_ = c.(*net.TCPConn).SetLinger(0)
			time.Sleep(time.Millisecond)
		},
	} {
		go func() {
			for ; ; time.Sleep(time.Millisecond) {
				if c, err := net.Dial("tcp", address); err == nil {
					way(c)
					_ = c.Close()
				}
			}
		}()
	}
	select {}
}
