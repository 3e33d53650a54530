//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/rank"
)

// runDying is a rank of a job whose rank 1 touches the number of bytes in its argument, and kills itself. Rank 0 prints
// the time after which it has learned of it, and the time until the process had ended: before its end the system
// notifies no process.
func runDying() {
	if err := measureDeath(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measureDeath() error {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(os.Args[1])
	if err == nil && w.Rank() == 1 {
		err = touchMemory(size)
	}
	if err != nil {
		return err
	}
	now, err := w.AllGather(ctx, fmt.Append(nil, os.Getpid()))
	if err != nil {
		return err
	}
	began := time.Now()
	if w.Rank() == 1 {
		time.Sleep(50 * time.Millisecond) // until the other one looks
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	pid, err := strconv.Atoi(string(now[1]))
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	ended := make(chan time.Duration)
	go func() {
		for { // a signal may end it
			if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); n > 0 {
				ended <- time.Since(began)
				return
			}
		}
	}()
	<-w.Failed()
	notified := time.Since(began)
	lost, err := w.Failure()
	fmt.Printf("notified after %d ms, ended after %d ms: %d, %v\n", notified.Milliseconds(), (<-ended).Milliseconds(),
		lost, err)
	return nil
}

// touchMemory maps memory in small pages and writes to each.
func touchMemory(size int) error {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	_ = syscall.Madvise(mem, syscall.MADV_NOHUGEPAGE)
	for i := 0; i < size; i += 4096 {
		mem[i] = 1
	}
	return nil
}

// The death of a child that acts as the rank in place of the rank's process is not taken for the rank's end.
func TestDyingChild(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "sh", "-c", "dying 1000; sleep 0.5; exit 7")
	if line := <-l.lines; !strings.Contains(line, "lost its connection") {
		t.Errorf("rank 0: %s", line)
	}
	l.checkExit(7)
}

// A rank that is killed is known to be lost before the system has taken its memory back, which takes half a second for
// 8 GiB, and longer where a driver has pinned it. Later the others learn how the rank has ended.
func TestDyingRank(t *testing.T) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`MemAvailable: +(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the system does not report the available memory")
	}
	available, _ := strconv.Atoi(string(m[1]))
	size := min(testutil.Count(1, 4)<<30, available<<10/6)
	testutil.WithLonger(t, time.Second, func(limit time.Duration) error {
		l := startTreerun(t, nil, "-np", "2", "dying", strconv.Itoa(size))
		line := <-l.lines
		var notified, ended time.Duration // in milliseconds
		if n, err := fmt.Sscanf(line, "[0] notified after %d ms, ended after %d ms: 1, rank 1", &notified, &ended); n < 2 {
			t.Fatalf("%q: %v\n%s", line, err, l.stderr.String())
		}
		l.checkExit(137)
		if text := l.stderr.String(); !strings.Contains(text, "rank 1 failed first: it was killed by SIGKILL") {
			t.Errorf("the cause is not the signal:\n%s", text)
		}
		if notified*time.Millisecond > limit || ended > 500 && notified >= ended {
			return fmt.Errorf("the rank was known to be lost after %d ms, and had ended after %d ms", notified, ended)
		}
		return nil
	})
}
