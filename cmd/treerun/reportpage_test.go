//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReport: the page of a job names what happened in it, however it has ended, and is the only file.
func TestReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"killed on hosts": {[]string{"--launch-agent", hostAgent, "-H", "a:2,b:2", "faller", "kill"}, 137, []string{
			`rank 2 was killed by SIGKILL; exit code 137`, `<pre tabindex="0">rank 2 failed first: it was killed by SIGKILL`,
			`<li><b>b</b>: ranks 2,3; its clock is known within `, `data:image/svg&#43;xml;base64`, `AllReduce of 400 B: `,
			`<th scope="row">AllReduce</th>\s+<td class="n" data-v="256">256 B</td>\s+<td class="n" data-v="[1-9][0-9]+">`,
			`rank 2 on b was killed by SIGKILL. <span>The job ended `,
		}},
		"one is late": {[]string{"-np", "4", "faller", "late"}, 0, []string{`ended well`, `No process was lost`,
			`(?s)Stragglers</h3>.*?<tbody>\s*<tr><th scope="row" data-v="2">2</th>`,
			`(?s)Slowest calls</h2>.*?<tbody>\s*<tr><th scope="row">AllReduce</th>.*?<td>[0-9,-]*2[0-9,-]*</td>`,
			`<th scope="row">a phase</th><td>the program</td><td class="n" data-v="4">4</td>`}},
		"no rank is one of package rank": {[]string{"-np", "2", "sh", "-c", "exit 3"}, 3, []string{
			`exited with code 3; exit code 3`, `not recorded: `, `No call was recorded`, `The graph is not known`}},
		"lost and replaced": {[]string{"-np", "2", "--on-failure", "respawn", "lives", "20", "5:1:0:exit"}, 0, []string{
			`ended well, after the loss of a process`, `Its process 2 took its place on `, `<small>process 2</small>`}},
		"all start again": {[]string{"-np", "2", "--on-failure", "restart", "sh", "-c",
			"test $RANK = 0 || exit $((1-TREERUN_EPOCH))"}, 0, []string{`ended well, after the loss of a process`,
			`rank 1 on \S+ exited with code 1. <span>All ranks started again; its process 2, on `}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "report.html")
			for i, arg := range c.args {
				if arg == "faller" || arg == "lives" {
					c.args[i] = install(t, t.TempDir(), arg)
				}
			}
			l := startTreerun(t, func(cmd *exec.Cmd) { cmd.Path = namedTreerun(t) },
				append([]string{"--report", file}, c.args...)...)
			l.checkEnd(c.code)
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).Match(page) {
					t.Errorf("no %s on the page", want)
				}
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("the folder has %v, %v", files, err)
			}
			if t.Failed() {
				keep := filepath.Join(os.TempDir(), "treerun-report-test.html")
				t.Logf("%v; the page is %s; stderr:\n%s", os.WriteFile(keep, page, 0o600), keep, &l.stderr)
			}
		})
	}
	l := startTreerun(t, nil, "--report", "/no/such/folder/report.html", "true")
	l.checkEnd(125)
	l.checkStderr("--report: ", "/no/such/folder: no such file or directory")
}
