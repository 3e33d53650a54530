//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

const (
	victim = 2  // the rank that hangs
	other  = 3  // the rank that it waits for, where it waits for one
	before = 20 // calls of all ranks before that
	wide   = 1000
)

// work is a rank. It prints "job ID PID" when it starts and "at FUNCTION FILE LINE" before it hangs.
func work(ctx context.Context, kind string) error {
	number, err := strconv.Atoi(os.Getenv("TREERUN_RANK"))
	if err != nil {
		return fmt.Errorf("TREERUN_RANK: %w", err)
	}
	if kind == "many" {
		return sleep(number)
	}
	fmt.Println("job", os.Getenv("TREERUN_JOB_ID"), number, os.Getpid())
	if kind == "init" && number == victim {
		at(1)
		time.Sleep(time.Hour)
	}
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	if kind == "uneven" {
		if err := uneven(ctx, c); err != nil {
			return err
		}
		return w.Close()
	}
	buf := make([]float32, wide)
	for i := 1; ; i++ {
		if i > before {
			switch {
			case kind == "output":
				fmt.Println(strings.Repeat("x", 4000))
			case w.Rank() == victim || w.Rank() == other && kind == "circle":
				if err := hang(ctx, c, kind); err != nil {
					return err
				}
			}
		}
		if err := collective.AllReduce(ctx, c, buf, buf, collective.Sum); err != nil {
			return err
		}
	}
}

// at prints a line of its caller's function, below the call.
func at(below int) {
	pc, file, line, _ := runtime.Caller(1)
	name := filepath.Base(runtime.FuncForPC(pc).Name())
	fmt.Println("at", fmt.Sprintf("%s at %s:%d", name, filepath.Base(file), line+below))
}

// hang stops making progress; the driver brings about the kinds that are not here.
func hang(ctx context.Context, c *collective.Comm, kind string) error {
	buf := make([]float32, wide)
	switch kind {
	case "never":
		at(1)
		time.Sleep(time.Hour)
	case "lock":
		var mu sync.Mutex
		mu.Lock()
		at(1)
		mu.Lock()
	case "loop", "starved":
		return spin(kind)
	case "pipe":
		var ends [2]int
		if err := syscall.Pipe(ends[:]); err != nil {
			return err
		}
		at(1)
		_, err := syscall.Read(ends[0], make([]byte, 1))
		return err
	case "flock":
		return flock()
	case "open":
		name := filepath.Join(os.Getenv("HANGS_DIR"), "fifo")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			return err
		}
		at(1)
		_, err := syscall.Open(name, syscall.O_RDONLY, 0)
		return err
	case "stopped":
		at(2)
		for begin := time.Now(); ; {
			time.Sleep(time.Hour - time.Since(begin))
		}
	case "recv":
		at(1)
		_, err := collective.Recv(ctx, c, buf, other, 7)
		return err
	case "circle":
		to := victim + other - c.Rank()
		if c.Rank() == victim {
			at(2)
		}
		if _, err := collective.Recv(ctx, c, buf, to, 7); err != nil {
			return err
		}
		return collective.Send(ctx, c, buf, to, 7)
	case "path":
		if c.Rank() == victim {
			fmt.Println("at the next call")
			time.Sleep(300 * time.Millisecond) // the driver cuts the path
		}
	}
	return nil
}

// spin computes without end.
func spin(kind string) error {
	if kind == "starved" {
		at(3)
	} else {
		at(2)
	}
	for x := 1; ; x++ {
		if x *= 3; x == 1 {
			return errors.New("an odd number is even")
		}
	}
}

// flock waits for a lock that this process itself holds.
func flock() error {
	name := filepath.Join(os.Getenv("HANGS_DIR"), "lock")
	for i := range 2 {
		fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if i == 1 {
			at(2)
		}
		if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
			return err
		}
	}
	return nil
}

// uneven makes calls between work of different lengths: rank 1 takes five times as long as the others, and rank 0
// writes a checkpoint of three seconds every twenty.
func uneven(ctx context.Context, c *collective.Comm) error {
	end, checkpoint := time.Now().Add(time.Hour), time.Now()
	if d, err := time.ParseDuration(os.Getenv("HANGS_TIME")); err == nil {
		end = time.Now().Add(d)
	}
	buf := make([]float32, wide)
	for buf[0] == 0 {
		long := time.Duration(20+rand.IntN(200)) * time.Millisecond
		switch {
		case c.Rank() == 1:
			long *= 5
		case c.Rank() == 0 && time.Since(checkpoint) > 20*time.Second:
			long, checkpoint = 3*time.Second, time.Now()
		}
		if c.Rank()%2 == 0 {
			time.Sleep(long)
		} else {
			for begin := time.Now(); time.Since(begin) < long; {
			}
		}
		if c.Rank() == 0 && time.Now().After(end) {
			buf[0] = 1
		}
		if err := collective.AllReduce(ctx, c, buf, buf, collective.Sum); err != nil {
			return err
		}
	}
	return c.Close()
}
