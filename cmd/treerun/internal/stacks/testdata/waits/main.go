// Program waits waits in one of many ways, and prints its own stack just before.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ways are the ways to wait, each in a function of its own.
var ways = map[string]func(){
	"channel": func() { <-announce(make(chan int)) },
	"mutex":   mutex,
	"sleep":   func() { time.Sleep(announce(time.Hour)) },
	"pipe":    pipe,
	"raw":     raw,
	"inlined": func() { load(make(chan int)) },
	"spin":    spin,
	"clock":   clock,
	"alloc":   alloc,
	"calls":   calls,
	"panic":   panicking,
	"busy":    busy,
	"other":   other,
	"many":    many,
}

func main() {
	time.AfterFunc(time.Hour, func() {}) // or Go reports a deadlock
	ways[os.Args[1]]()
}

// announce prints the functions of this program that are on the stack, with their lines, and returns its argument.
// So the wait is in the line of the call.
func announce[T any](v T) T {
	var text strings.Builder
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, "main.") && f.File != "_cgo_gotypes.go" {
			fmt.Fprintf(&text, "%s %s:%d|", f.Function, f.File, f.Line)
		}
	}
	fmt.Println(text.String())
	return v
}

func mutex() {
	var mu sync.Mutex
	mu.Lock()
	announce(&mu).Lock()
}

func pipe() {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		panic(err)
	}
	syscall.Read(announce(fds[0]), make([]byte, 1))
}

// raw blocks its thread without the knowledge of Go's scheduler. Signals end the call, so there are many calls.
func raw() {
	for ok := announce(true); ok; _, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) {
	}
}

func load(c chan int) { fetch(c) }

func fetch(c chan int) {
	<-announce(c)
}

func spin() {
	for n := announce(1); n != 0; n += 2 {
	}
}

func clock() {
	for t := announce(time.Now()); time.Since(t) < time.Hour; {
	}
}

// alloc is often on the stack of its thread, in the runtime.
func alloc() {
	for ok := announce(true); ok; sink = make([]byte, 100_000) {
	}
}

var sink []byte

// calls makes short system calls.
func calls() {
	for n := announce(1); n != 0; n, _ = syscall.Write(-1, nil) {
	}
}

// panicking waits in a deferred function, after a fault.
func panicking() {
	defer func() { <-announce(make(chan int)) }()
	fmt.Println(*broken)
}

var broken *int

// busy has goroutines that change all the time.
func busy() {
	a, b := make(chan int), make(chan int)
	for range 8 {
		go pass(a, b, 20)
		go pass(b, a, 20)
	}
	a <- announce(0)
	select {}
}

func pass(from, to chan int, depth int) {
	if depth > 0 {
		pass(from, to, depth-1)
		return
	}
	for v := range from {
		to <- v
	}
}

// other waits in another goroutine than the first.
func other() {
	go func() { <-announce(make(chan int)) }()
	select {}
}

// many has more goroutines than are read.
func many() {
	var begun sync.WaitGroup
	for range 11_000 {
		begun.Add(1)
		go func() {
			begun.Done()
			select {}
		}()
	}
	begun.Wait()
	<-announce(make(chan int))
}
