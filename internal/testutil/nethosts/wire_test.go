//go:build linux

package nethosts_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// serve answers every connection to port 4000 with the hostname.
func serve() {
	l, err := net.Listen("tcp", ":4000")
	if err != nil {
		panic(err)
	}
	name, err := os.Hostname()
	if err != nil {
		panic(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(3)
	}()
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, name)
		_ = c.Close()
	}
}

// ask returns the answer of the server at address, or the outcome of a failed attempt. For a host that does not answer,
// the kernel takes seconds to give up, too.
func ask(address string) string {
	c, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case err != nil:
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	b, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
