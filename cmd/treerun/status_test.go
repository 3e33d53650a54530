//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// hanger is a rank of a job in which rank 2 stops making progress in the way that the argument names, after some calls.
// It prints the line at which it does that.
func hanger() {
	ctx := context.Background()
	w, c := joined(ctx)
	buf := make([]float32, 100)
	for i := range 1000000 {
		if i == 20 && w.Rank() == 0 {
			fmt.Println("job", w.JobID())
		}
		if i == 20 && w.Rank() == 2 {
			hang(c, os.Args[1])
		}
		if err := collective.AllReduce(ctx, c, buf, buf, collective.Sum); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
	}
}

// joined returns the World of a rank and a communicator, or ends the rank.
func joined(ctx context.Context) (*rank.World, *collective.Comm) {
	w, err := rank.Init(ctx)
	if err == nil {
		var c *collective.Comm
		if c, err = collective.New(ctx, w); err == nil {
			return w, c
		}
	}
	fmt.Println(err)
	os.Exit(3)
	return nil, nil
}

// at prints the line of its caller, which is about to hang.
func at() {
	_, _, line, _ := runtime.Caller(1)
	fmt.Println("line", line)
}

func hang(c *collective.Comm, how string) {
	buf := make([]float32, 100)
	switch how {
	case "stop":
		at()
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour) // the signal may take a moment
	case "sleep":
		at()
		time.Sleep(time.Hour)
	case "spin":
		at()
		for until := time.Now().Add(time.Hour); time.Now().Before(until); {
		}
	case "read":
		var pipe [2]int
		_ = syscall.Pipe(pipe[:])
		at()
		_, _ = syscall.Read(pipe[0], make([]byte, 1))
	case "lock":
		var mu sync.Mutex
		mu.Lock()
		at()
		mu.Lock()
	case "recv":
		at()
		_, _ = collective.Recv(context.Background(), c, buf, 3, 0)
	}
}

// The first look at a job that hangs names the rank that the others wait for, its call, the state of its process and
// its line. What is expected comes from the rank itself.
func TestStatus(t *testing.T) {
	for how, c := range map[string]struct{ verdict, process string }{
		"stop":  {`rank 2 is in no call; its process \d+ is stopped by SIGSTOP, in [a-z]+.hang at `, "stopped"},
		"sleep": {`rank 2 is in no call; its process \d+ sleeps, in [a-z]+.hang at status_test.go`, "sleeps"},
		"spin":  {`rank 2 is in no call; its process \d+ (computes|is ready to run and gets \d+ % of a core|sleeps).*, in [a-z]+.hang at `, ""},
		"read":  {`rank 2 is in no call; its process \d+ is blocked in the system call read, in [a-z]+.hang at `, "read"},
		"lock":  {`rank 2 is in no call; its process \d+ sleeps, in [a-z]+.hang at status_test.go`, "sleeps"},
		"recv":  {`rank \d waits in Recv .*: a circle|rank 2 waits in .*: a circle|: a circle`, ""},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, nil, "-np", "4", "--tag-output=false", install(t, t.TempDir(), "hanger"), how)
			l.expect(1, "job ")
			id, line := "", 0
			for line == 0 || id == "" {
				for _, text := range l.output {
					word, value, _ := strings.Cut(text, " ")
					switch word {
					case "job":
						id = value
					case "line":
						line, _ = strconv.Atoi(value)
					}
				}
				if line == 0 {
					l.expect(1, "line ")
				}
			}
			time.Sleep(500 * time.Millisecond) // the others must wait for some time
			var got struct {
				Verdict string
				Ranks   []struct {
					Rank int
					Line string
				}
			}
			text := statusOf(t, id, "--json")
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			if len(got.Ranks) != 4 || !regexp.MustCompile(c.verdict).MatchString(got.Verdict) {
				t.Fatalf("%d ranks, %q, want %s", len(got.Ranks), got.Verdict, c.verdict)
			}
			const others = "3 of 4 ranks wait together in AllReduce #21 (sum of 100 float32) for "
			if how != "recv" && !strings.HasPrefix(got.Verdict, others) {
				t.Errorf("the others: %q", got.Verdict)
			}
			_, number, _ := strings.Cut(got.Ranks[2].Line, ":")
			if n, _ := strconv.Atoi(number); how != "spin" && (n <= line || n > line+2) {
				t.Errorf("line %s, want the one after line %d", got.Ranks[2].Line, line)
			}
			table := statusOf(t, id, "--stacks", "2")
			row := regexp.MustCompile(`(?m)^2 .* ` + c.process + ` `)
			if !row.MatchString(table) || !strings.Contains(table, "goroutine 1 [") {
				t.Errorf("want a row %v, and the goroutines of rank 2:\n%s", row, table)
			}
			l.signal(syscall.SIGKILL)
			l.checkEnd(128 + int(syscall.SIGKILL))
		})
	}
}

// statusOf returns the output of treerun status for a job.
func statusOf(t *testing.T, id string, flags ...string) string {
	t.Helper()
	l := startTreerun(t, nil, append([]string{"status", id}, flags...)...)
	l.checkExit(0)
	return strings.Join(l.output, "\n")
}

// Jobs that do not exist, and programs that are no ranks, get words.
func TestStatusWithoutRanks(t *testing.T) {
	none := startTreerun(t, nil, "status", "2y6yx3yvldi5b")
	none.checkExit(125)
	if text := none.stderr.String(); !strings.Contains(text, "does not run on this host (hint: ") {
		t.Errorf("no such job: %s", text)
	}
	bad := startTreerun(t, nil, "status", "no job")
	bad.checkExit(125)
	if text := bad.stderr.String(); !strings.Contains(text, `job "no job": `) {
		t.Errorf("no id of a job: %s", text)
	}
	l := startTreerun(t, nil, "-np", "2", "--tag-output=false", "sh", "-c", "echo job $TREERUN_JOB_ID; exec sleep 60")
	l.expect(2, "job ")
	_, id, _ := strings.Cut(l.output[0], " ")
	other := startTreerun(t, nil, "status", id, "--stacks", "1,7")
	other.checkExit(125)
	if text := other.stderr.String(); !strings.Contains(text, "not all of these run: ranks 1,7 (hint: ") {
		t.Errorf("no such rank: %s", text)
	}
	text := statusOf(t, id)
	if !strings.Contains(text, "no rank waits for another") || !strings.Contains(text, "clock_nanosleep") ||
		!strings.Contains(text, "does not use package rank") || !strings.Contains(text, "not a Go executable") {
		t.Errorf("status of two sleeps:\n%s", text)
	}
	l.signal(syscall.SIGKILL)
	l.checkEnd(128 + int(syscall.SIGKILL))
}
