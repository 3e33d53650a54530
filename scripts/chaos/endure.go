//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endure runs one job of three ranks through many epochs. Rank 0 lives through all of them; the others are killed in
// turn. It records what the processes that stay hold, after a tenth of the epochs and at the end.
func endure(f *flags, epochs int, record *json.Encoder) error {
	f.policies, f.sizes, f.faults = []string{"respawn"}, []int{3}, []string{"kill"}
	t, err := newTrial(f, f.seed)
	if err != nil {
		return err
	}
	args := []string{"--on-failure", "respawn", "--max-restarts", strconv.Itoa(epochs), "--tag-output=false", "-x", t.mark,
		t.worker}
	t.inject = func() {
		for epoch := range epochs {
			t.mu.Lock()
			for len(t.sizes) < 3*(epoch+1) && !t.over { // all have made a sum
				t.news.Wait()
			}
			pid, goroutines := t.pids[1+epoch%2], t.goroutines
			t.mu.Unlock()
			if epoch%(epochs/10) == epochs/10-1 {
				err = errors.Join(err, record.Encode(map[string]string{"fact": fmt.Sprintf("after %d epochs", epoch+1),
					"value": fmt.Sprintf("%s; goroutines of rank 0: %d", t.usage(), goroutines)}))
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	shm, _ := filepath.Glob("/dev/shm/*")
	begin := time.Now()
	hung, end := t.execute(time.Duration(epochs)*limit, args, "CHAOS_TIME=10h", "CHAOS_EPOCHS="+strconv.Itoa(epochs))
	t.judge(end, hung, shm)
	fmt.Printf("%s: %d epochs in %v: %s\n", f.part, epochs, time.Since(begin), t.wrong)
	if t.wrong != "" {
		err = errors.Join(err, errors.New(t.wrong))
	}
	return errors.Join(err, t.end())
}

// usage describes what the processes that stay hold: the launcher, its guard, and rank 0.
func (t *trial) usage() string {
	var text []string
	zombies := 0
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if pid != t.launcher && parent(pid) != t.launcher {
			continue
		}
		dir := filepath.Dir(name)
		stat, _ := os.ReadFile(name)
		line, _ := os.ReadFile(dir + "/cmdline")
		who := ""
		switch {
		case strings.Contains(string(stat), ") Z "):
			zombies++
		case pid == t.launcher:
			who = "launcher"
		case strings.Contains(string(line), "\x00guard"):
			who = "guard"
		case pid == t.pids[0]:
			who = "rank 0"
		}
		if who != "" {
			open, _ := os.ReadDir(dir + "/fd")
			status, _ := os.ReadFile(dir + "/status")
			_, rest, _ := strings.Cut(string(status), "VmRSS:")
			kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			text = append(text, fmt.Sprintf("%s: %d descriptors, %s KiB", who, len(open), kib))
		}
	}
	slices.Sort(text)
	return fmt.Sprintf("%s; zombies of the launcher: %d", strings.Join(text, "; "), zombies)
}
