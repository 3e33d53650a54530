//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// faller is a rank of a job in which rank 2 fails after 40 calls, in the way that the argument names.
func faller() {
	ctx := context.Background()
	w, c := joined(ctx)
	buf := make([]float32, 100)
	end := rank.Span(w, "a phase")
	for i := range 1000 {
		var err error
		if i == 40 && os.Args[1] == "late" {
			end()
			if w.Rank() == 2 {
				time.Sleep(time.Second)
			}
		}
		if i == 41 && os.Args[1] == "late" {
			c.Close()
			w.Close()
			return
		}
		if i == 40 && w.Rank() == 2 && os.Args[1] != "late" {
			switch os.Args[1] {
			case "kill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "panic":
				panic("no more")
			case "mismatch":
				err = collective.Broadcast(ctx, c, buf, buf, 1)
			}
		} else {
			err = collective.AllReduce(ctx, c, buf, buf, collective.Sum)
		}
		if err != nil {
			fmt.Println(err)
			c.Close() // the page has the calls even then
			os.Exit(3)
		}
	}
}

// TestLastCalls: the latest calls of a rank that was killed, has panicked or has made another call are with those of
// the others in a file beside the output of the ranks, and with -v shortened in the root-cause block.
func TestLastCalls(t *testing.T) {
	const reduced = `AllReduce #40 \(sum of 100 float32\)`
	for how, c := range map[string]struct {
		code        int
		block, file string
	}{
		"kill": {137, `\n    calls   ranks? [0-9,]*2[0-9,]*: in no call; after ` + reduced + `, AllReduce #39 .*, AllReduce #38 [^,]*\n`,
			`rank 2 was in no call\n    on world, of 4 ranks:\n        ` + reduced + `\n        AllReduce #39 `},
		"panic": {2, `\n    calls   ranks? [0-9,]*2[0-9,]*: in no call; after ` + reduced + `, `,
			`rank 2 was in no call\n    on world, of 4 ranks(, which it had closed)?:\n        ` + reduced + `\n`},
		"mismatch": {3, `\n    calls   ranks? [0-9,]*2[0-9,]*: in no call; after Broadcast #41 \(100 float32, root 1\), AllReduce #40`,
			`rank 2 was in no call\n    on world, of 4 ranks, which it had closed:\n        Broadcast #41 .*\n        ` + reduced},
	} {
		for _, where := range []string{"one host", "hosts"} {
			t.Run(how+" on "+where, func(t *testing.T) {
				t.Parallel()
				logs := filepath.Join(t.TempDir(), "logs")
				args := []string{"-v", "--output-dir", logs, install(t, t.TempDir(), "faller"), how}
				if where == "hosts" {
					args = append([]string{"--launch-agent", hostAgent, "-H", "a:2,b:2"}, args...)
				} else {
					args = append([]string{"-np", "4"}, args...)
				}
				l := startTreerun(t, func(c *exec.Cmd) { c.Path = namedTreerun(t) }, args...)
				l.checkEnd(c.code)
				errors := l.stderr.String()
				if !regexp.MustCompile(c.block).MatchString(errors) {
					t.Errorf("no %s in\n%s", c.block, errors)
				}
				file := filepath.Join(logs, "cause.txt")
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				text := string(data)
				if !regexp.MustCompile(c.file).MatchString(text) {
					t.Errorf("no %s in\n%s", c.file, text)
				}
				if n := strings.Count(text, reduced[:len("AllReduce #40 ")]); n != 4 {
					t.Errorf("%d of 4 ranks have call 40:\n%s", n, text)
				}
				if n := strings.Count(text, "\n        AllReduce #"); n < 4*31 || n > 4*32 {
					t.Errorf("%d calls are listed, want 32 for each rank", n)
				}
				if !strings.HasPrefix(text, "treerun: rank ") || !strings.Contains(errors, "calls   of all ranks: "+file) {
					t.Errorf("the block:\n%s\nthe file:\n%s", errors, text)
				}
			})
		}
	}
}
