//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Where Debian has Grid Engine.
const (
	gridEngine      = "/usr/lib/gridengine"
	gridEngineRoot  = "/var/lib/gridengine" // with links to gridEngine for each architecture
	gridEngineShare = "/usr/share/gridengine"
)

// gridBootstrap says where the daemons have their state; %[1]s is the folder.
const gridBootstrap = `admin_user none
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params %[1]s/spooldb
binary_path /usr/lib/gridengine
qmaster_spool_dir %[1]s/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
`

// gridParallel is a parallel environment with two slots on each host in turn, whose hosts Grid Engine controls.
const gridParallel = `pe_name mpi
slots 99
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule 2
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
`

// newGridEngine starts a Grid Engine of two hosts with four slots each, whose only user is root.
func newGridEngine(t *testing.T) *cluster {
	t.Helper()
	testutil.NotUnderRace(t, "the daemons are Grid Engine's")
	var missing error
	for _, tool := range []string{"sge_qmaster", "sge_execd", "spoolinit", "spooldefaults", "qsub"} {
		_, err := os.Stat(filepath.Join(gridEngine, tool))
		missing = errors.Join(missing, err)
	}
	testutil.Need(t, testutil.GridEngine, missing)
	s := newCluster(t)
	s.env = []string{"SGE_ROOT=" + s.dir + "/root", "SGE_CELL=default", "SGE_ND=1"}
	for _, d := range []string{"root/default/common", "qmaster/job_scripts", "spooldb", "execd"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "lib", "utilbin", "util"} {
		if err := os.Symlink(filepath.Join(gridEngineRoot, link), filepath.Join(s.dir, "root", link)); err != nil {
			t.Fatal(err)
		}
	}
	s.write("root/default/common/bootstrap", fmt.Sprintf(gridBootstrap, s.dir), 0o644)
	s.write("root/default/common/act_qmaster", s.hosts.Name(0)+"\n", 0o644)
	s.write("configuration", changed(t, gridEngineShare+"/default-configuration", map[string]string{
		"execd_spool_dir": s.dir + "/execd", "min_uid": "0", "min_gid": "0", "mailer": "/bin/true"}), 0o644)

	s.must(gridEngine+"/spoolinit", "berkeleydb", "libspoolb", s.dir+"/spooldb", "init")
	for kind, from := range map[string]string{"configuration": s.dir + "/configuration", "managers": "root",
		"complexes": gridEngineShare + "/util/resources/centry", "usersets": gridEngineShare + "/util/resources/usersets"} {
		s.must(gridEngine+"/spooldefaults", kind, from)
	}
	s.daemon(0, gridEngine+"/sge_qmaster")
	s.waitUntil("sge_qmaster", func() bool { _, _, code := s.run("qconf", "-sh"); return code == 0 })
	s.must("qconf", "-ah", "h0,h1")
	s.must("qconf", "-as", "h0,h1")
	for i := range clusterNodes {
		s.daemon(i, gridEngine+"/sge_execd")
	}
	s.write("parallel", gridParallel, 0o644)
	s.write("group", "group_name @allhosts\nhostlist h0 h1\n", 0o644)
	s.write("template", s.must("qconf", "-sq"), 0o644)
	s.write("queue", changed(t, s.dir+"/template", map[string]string{"qname": "main.q", "hostlist": "@allhosts",
		"slots": "4", "pe_list": "mpi", "shell": "/bin/sh", "load_thresholds": "NONE"}), 0o644)
	s.write("defaults", s.must("qconf", "-ssconf"), 0o644)
	s.write("scheduling", changed(t, s.dir+"/defaults", map[string]string{"schedule_interval": "0:0:1",
		"flush_submit_sec": "1", "flush_finish_sec": "1"}), 0o644)
	s.must("qconf", "-Ap", "parallel")
	s.must("qconf", "-Ahgrp", "group")
	s.must("qconf", "-Aq", "queue")
	s.must("qconf", "-Msconf", "scheduling")
	s.waitUntil("both hosts", func() bool { return strings.Count(s.must("qhost"), " lx-amd64 ") == clusterNodes })
	return s
}

// changed returns the text of a file of "name value" lines with other values.
func changed(t *testing.T, file string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		line := regexp.MustCompile(`(?m)^` + name + `\s.*$`)
		if !line.Match(text) {
			t.Fatalf("%s has no line %s:\n%s", file, name, text)
		}
		text = line.ReplaceAll(text, []byte(name+" "+value))
	}
	return string(text)
}

// In a job of Grid Engine treerun starts its agents by qrsh -inherit: no sshd runs here. Output, stdin and the exit
// code are those of a job by ssh; nothing is left after the loss of a rank or of an agent, a signal, and qdel.
func TestGridEngineAgents(t *testing.T) {
	s := newGridEngine(t)
	output := func() string {
		text, _ := os.ReadFile(s.dir + "/out.txt") // none before the first line
		return string(text)
	}
	submit := func(script string, args ...string) (stdout string, code int) {
		s.write("job.sh", "PATH="+s.bin+":$PATH HOME="+s.dir+"; export PATH\n"+script, 0o755)
		args = append(args, "-terse", "-cwd", "-S", "/bin/sh", "-j", "y", "-o", s.dir+"/out.txt", "-pe", "mpi", "4",
			s.dir+"/job.sh")
		if err := os.Remove(s.dir + "/out.txt"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		stdout, logs, code := s.run("qsub", args...)
		if stdout == "" {
			t.Fatalf("qsub: code %d, %s", code, logs)
		}
		return stdout, code
	}
	batch := func(script string) (text string, code int) {
		_, code = submit(script, "-sync", "y")
		s.waitIdle()
		return output(), code
	}
	text, code := batch("seq 100000 > in; treerun sh -c '" + s.bin + "/hello; cat | tail -n 1' < in\n")
	for _, want := range []string{"[3] hello from rank 3 of 4, local rank 1 of 2 on h", "[0] 100000\n"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("code %d, %q is missing in\n%s", code, want, text)
		}
	}
	text, code = batch("exec treerun sh -c 'yes | head -c 3000000 | wc -c; test $RANK = 3 && exit 9; sleep 1000'\n")
	if code != 9 || !strings.Contains(text, "rank 3 failed first: it exited with code 9") ||
		strings.Count(text, "] 3000000\n") != 4 {
		t.Errorf("code %d, want 9:\n%.2000s", code, text)
	}
	text, _ = batch("treerun sh -c 'test $RANK = 2 && kill -KILL $PPID; sleep 1000'; echo code $?\n")
	if !regexp.MustCompile(`(?s)host h[01] was lost .*code 125\n`).MatchString(text) {
		t.Errorf("a killed agent: code 125 is missing:\n%s", text)
	}
	text, code = batch("treerun sh -c 'trap \"echo stopped; exit\" TERM; echo up; sleep 1000 & wait' & \n" +
		"until [ $(grep -c up out.txt) = 4 ]; do sleep 0.1; done; kill -TERM $!; wait $!\n")
	if code != 143 || strings.Count(text, "stopped\n") != 4 {
		t.Errorf("SIGTERM: code %d, want 143:\n%s", code, text)
	}
	job, _ := submit("exec treerun sh -c 'echo up; sleep 1000'\n")
	s.waitUntil("the ranks", func() bool { return strings.Count(output(), "up\n") == 4 })
	s.must("qdel", strings.TrimSpace(job))
	s.waitIdle()
}
