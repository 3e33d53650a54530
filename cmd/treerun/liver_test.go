//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// runLives is a rank that continues after failures. It counts to STEPS: "lives STEPS [STEP:ORIGIN:EPOCH:FAULT ...]". In
// each step the ranks add up their origins and compare the sum. At that step, the rank with that origin has that fault;
// at STEPS, after it has closed its World.
func runLives() {
	steps := 0
	_, err := fmt.Sscan(os.Args[1], &steps)
	if err == nil {
		ctx, cancel := context.Background(), func() {}
		if limit, limitErr := time.ParseDuration(os.Getenv("LIVES_LIMIT")); limitErr == nil {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		err = live(ctx, steps, os.Args[2:])
		cancel()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lives:", err)
		os.Exit(4)
	}
}

var errOwn = errors.New("a failure of the program's own")

func live(ctx context.Context, steps int, faults []string) error {
	step := 0
	for w, err := range rank.Worlds(ctx) {
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				time.Sleep(time.Second) // it has other things to do
			}
			return err
		}
		fmt.Printf("epoch %d: origin %d is rank %d of %d, lost %v, joined %v, TREERUN_EPOCH %s\n", w.Epoch(), w.Origin(),
			w.Rank(), w.Size(), w.Lost(), w.Joined(), os.Getenv("TREERUN_EPOCH"))
		if err = count(w.Context(), w, &step, steps, faults); err == nil {
			fmt.Printf("done: origin %d at step %d\n", w.Origin(), step)
			if err = w.Close(); err == nil {
				err = haveFault(w, step, faults)
			}
			return err
		}
		if !rank.Again(err) {
			return err
		}
	}
	return nil
}

func count(ctx context.Context, w *rank.World, step *int, steps int, faults []string) error {
	c, err := collective.New(ctx, w)
	if err == nil {
		*step, err = collective.AllReduceValue(ctx, c, *step, collective.Max)
	}
	for ; err == nil && *step < steps; *step++ {
		if err = haveFault(w, *step, faults); err != nil {
			break
		}
		var sum int
		origins := make([]int, w.Size())
		if err = collective.AllGather(ctx, c, []int{w.Origin()}, origins); err != nil {
			break
		}
		if sum, err = collective.AllReduceValue(ctx, c, w.Origin(), collective.Sum); err != nil {
			break
		}
		for _, o := range origins {
			sum -= o
		}
		if sum != 0 {
			return fmt.Errorf("step %d: the sum of %v differs by %d", *step, origins, sum)
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("step %d: %w", *step, err)
	}
	return c.Close()
}

// haveFault has this rank fail if it is its turn.
func haveFault(w *rank.World, step int, faults []string) error {
	for _, f := range faults {
		name := fmt.Sprintf("%d:%d:%d:", step, w.Origin(), w.Epoch())
		kind, mine := strings.CutPrefix(f, name)
		if !mine {
			continue
		}
		fmt.Println("fault:", kind)
		switch kind {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "stop":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {}
		case "children": // which would outlive it
			for range 2 {
				cmd := exec.Command("sleep", "600")
				if err := cmd.Start(); err != nil {
					return err
				}
				fmt.Println("child", cmd.Process.Pid)
			}
			os.Exit(3)
		case "exit":
			fmt.Fprintln(os.Stderr, "no more memory")
			os.Exit(3)
		case "leave": // without Close
			os.Exit(0)
		case "panic":
			panic("fault")
		case "own":
			return errOwn
		case "again":
			return rank.ErrAgain
		case "close":
			if err := w.Close(); err != nil {
				return err
			}
			os.Exit(0)
		case "slow": // it has not renewed for a while
			time.Sleep(3 * time.Second)
		case "wait": // a bit longer than another rank
			time.Sleep(time.Second)
		case "usage":
			printUsage(os.Getppid())
		case "read":
			line, err := readLine(os.Stdin)
			fmt.Printf("read %q, %v\n", line, err)
		default:
			return fmt.Errorf("unknown fault %q", f)
		}
	}
	return nil
}

// readLine reads one line, and nothing that follows it: that is for the rank's next process.
func readLine(r io.Reader) (line string, err error) {
	for b := []byte{0}; !strings.HasSuffix(line, "\n"); line += string(b) {
		if _, err := io.ReadFull(r, b); err != nil {
			return line, err
		}
	}
	return line, nil
}

// printUsage prints the number of descriptors of the launcher and of its guard, and that of the launcher's zombies.
func printUsage(launcher int) {
	descriptors := func(pid int) int {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		return len(list)
	}
	zombies, guard := 0, 0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		pid, parent, state := 0, 0, ""
		text, _ := os.ReadFile(name) // it may have ended meanwhile
		_, rest, _ := strings.Cut(string(text), ") ")
		if n, _ := fmt.Sscanf(rest, "%s %d", &state, &parent); n != 2 || parent != launcher {
			continue
		}
		_, _ = fmt.Sscanf(string(text), "%d", &pid)
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if state == "Z" {
			zombies++
		}
		if strings.Contains(string(line), "guard:ranks") {
			guard = pid
		}
	}
	fmt.Printf("usage: launcher %d, guard %d, zombies %d\n", descriptors(launcher), descriptors(guard), zombies)
}
