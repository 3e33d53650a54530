//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// trial is a job with one hang.
type trial struct {
	kind
	place   *place
	self    string // this program
	dir     string
	helpers []*exec.Cmd // that run until the end of the trial

	mu    sync.Mutex
	news  *sync.Cond // the fields below have changed
	id    string     // of the job
	pids  map[int]int
	at    string   // the line at which the victim hangs
	lines []string // of treerun's standard error
	times []time.Time
	over  bool // it has ended
}

// row is the result of a trial.
type row struct {
	Kind    string  `json:"kind"`
	What    string  `json:"what"`
	Place   string  `json:"place"`
	Verdict string  `json:"verdict"` // of the first status
	State   string  `json:"state"`   // of the victim's process in its table
	Took    float64 `json:"took_s"`  // by that status
	Watch   float64 `json:"watch_s"` // from the hang to the line of the watch; 0: none
	Line    string  `json:"line"`    // that line
	Wrong   string  `json:"wrong,omitempty"`
	Load    float64 `json:"load"`
}

const (
	startLimit = 30 * time.Second
	lookAfter  = 2 * time.Second
	watchLimit = time.Minute // from the hang
)

// run runs a trial.
func run(k kind, p *place, self string) (r row, err error) {
	t := &trial{kind: k, place: p, self: self, pids: map[int]int{}}
	t.news = sync.NewCond(&t.mu)
	r = row{Kind: k.name, What: k.what, Place: p.name, Load: load()}
	if t.dir, err = os.MkdirTemp("", "hangs-"); err != nil {
		return r, err
	}
	defer os.RemoveAll(t.dir)
	job := p.job("-x", "HANGS_KIND="+k.name, "-x", "HANGS_DIR="+t.dir, self)
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := job.StdoutPipe()
	if err != nil {
		return r, err
	}
	errs, err := job.StderrPipe()
	if err == nil {
		err = job.Start()
	}
	if err != nil {
		return r, err
	}
	var reading sync.WaitGroup
	reading.Go(func() { t.read(out) })
	reading.Go(func() { t.readErrors(errs) })
	defer func() {
		for _, h := range t.helpers {
			_ = h.Process.Kill()
			_ = h.Wait()
		}
		_ = syscall.Kill(t.pids[victim], syscall.SIGCONT)
		_ = job.Process.Signal(syscall.SIGKILL)
		_ = job.Wait()
		reading.Wait()
		if k.name == "path" {
			err = errors.Join(err, p.hosts.Unmute(0, p.hostOf(victim)))
		}
	}()
	if !t.await(startLimit, func() bool { return t.at != "" && len(t.pids) == ranks }) {
		r.Wrong = "the job has not started: " + strings.Join(t.lines, "; ")
		return r, nil
	}
	time.Sleep(100 * time.Millisecond) // it is at that line
	begin := time.Now()
	if t.act != nil {
		if err := t.act(t); err != nil {
			return r, err
		}
	}
	time.Sleep(lookAfter - time.Since(begin)) // the hang that is looked at
	return r, t.compare(&r, begin)
}

// compare compares the output of treerun status and of the watch with the hang.
func (t *trial) compare(r *row, begin time.Time) error {
	looked := time.Now()
	table, err := t.place.command("status", t.id).Output()
	if err != nil {
		return fmt.Errorf("treerun status: %w", err)
	}
	r.Took = time.Since(looked).Seconds()
	if lines := strings.Split(string(table), "\n"); len(lines) > 1 {
		r.Verdict = lines[1]
	}
	r.State = stateOf(victim, string(table))
	want := regexp.MustCompile(strings.ReplaceAll(t.verdict, "LINE", regexp.QuoteMeta(t.at)))
	wrong := ""
	if !want.MatchString(r.Verdict) {
		wrong = fmt.Sprintf("verdict %q, want %v; ", r.Verdict, want)
	}
	if !regexp.MustCompile("^(" + t.state + ")$").MatchString(r.State) {
		wrong += fmt.Sprintf("state %q, want %s; ", r.State, t.state)
	}
	printed := func() int {
		return slices.IndexFunc(t.lines, func(line string) bool {
			return want.MatchString(strings.TrimPrefix(line, "treerun: "))
		})
	}
	t.await(watchLimit-time.Since(begin), func() bool { return printed() >= 0 })
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := printed(); i >= 0 {
		r.Watch, r.Line = t.times[i].Sub(begin).Seconds(), t.lines[i]
	} else {
		wrong += fmt.Sprintf("the watch has printed %q", t.lines)
	}
	r.Wrong = wrong
	return nil
}

// stateOf returns the word for the process of a rank in a table of treerun status.
func stateOf(rank int, table string) string {
	column := -1
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if i := slices.Index(fields, "PROCESS"); i >= 0 {
			column = i
			continue
		}
		of := regexp.MustCompile(fmt.Sprintf(`^(.*,)?%d([-,].*)?$`, rank))
		if column > 0 && len(fields) > column && of.MatchString(fields[0]) {
			return fields[column]
		}
	}
	return ""
}

// await waits until a condition holds, and reports whether it does.
func (t *trial) await(limit time.Duration, holds func() bool) bool {
	late := false
	timer := time.AfterFunc(limit, func() {
		t.mu.Lock()
		late = true
		t.mu.Unlock()
		t.news.Broadcast()
	})
	defer timer.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for !late && !t.over && !holds() {
		t.news.Wait()
	}
	return holds()
}

// read reads the standard output of the job.
func (t *trial) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		t.mu.Lock()
		switch word {
		case "job":
			var number, pid int
			_, _ = fmt.Sscan(rest, &t.id, &number, &pid)
			t.pids[number] = pid
		case "at":
			t.at = rest
		case strings.Repeat("x", 4000):
			t.at = "a line"
		}
		t.mu.Unlock()
		t.news.Broadcast()
		if t.at == "a line" {
			return // nothing reads the output from here on
		}
	}
}

// readErrors reads its standard error.
func (t *trial) readErrors(errs io.Reader) {
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		t.mu.Lock()
		t.lines, t.times = append(t.lines, lines.Text()), append(t.times, time.Now())
		t.mu.Unlock()
		t.news.Broadcast()
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.news.Broadcast()
}

// load returns the load of the machine.
func load() (l float64) {
	text, _ := os.ReadFile("/proc/loadavg") // 0 without it
	_, _ = fmt.Sscan(string(text), &l)
	return l
}
