//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// slurmConf is for a cluster without control groups or accounting, all of whose
// daemons run as root. %[1]s is the folder.
const slurmConf = `ClusterName=treerun
SlurmctldHost=h0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%[1]s/munge/socket
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool-%%n
SlurmctldPidFile=%[1]s/ctld.pid
SlurmdPidFile=%[1]s/%%n.pid
SlurmctldPort=6817
SlurmdPort=6818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000
KillWait=10
NodeName=h[0-1] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
`

// newSlurm starts a Slurm of two nodes with two CPUs each.
func newSlurm(t *testing.T) *cluster {
	t.Helper()
	testutil.NotUnderRace(t, "the daemons are Slurm's")
	var missing error
	for _, tool := range []string{"slurmctld", "slurmd", "munged", "sbatch", "srun", "scancel", "sinfo"} {
		_, err := exec.LookPath(tool)
		missing = errors.Join(missing, err)
	}
	testutil.Need(t, testutil.Slurm, missing)
	s := newCluster(t)
	s.env = []string{"SLURM_CONF=" + s.dir + "/slurm.conf"}
	for _, d := range []string{"munge", "state", "spool-h0", "spool-h1"} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("slurm.conf", fmt.Sprintf(slurmConf, s.dir), 0o644)
	s.write("munge.key", strings.Repeat("secret of this test only. ", 8), 0o600)
	s.daemon(0, "munged", "--foreground", "--force", "--key-file", s.dir+"/munge.key", "--socket", s.dir+"/munge/socket",
		"--pid-file", s.dir+"/munge/pid", "--log-file", s.dir+"/munge/log", "--seed-file", s.dir+"/munge/seed")
	s.waitUntil("munged", func() bool { _, err := os.Stat(s.dir + "/munge/socket"); return err == nil })
	s.daemon(0, "slurmctld", "-D", "-f", s.dir+"/slurm.conf")
	for i := range clusterNodes {
		s.daemon(i, "slurmd", "-D", "-f", s.dir+"/slurm.conf", "-N", s.hosts.Name(i))
	}
	s.waitUntil("the nodes", func() bool {
		out, _, _ := s.run("sinfo", "-h", "-o", "%D %t")
		return strings.TrimSpace(out) == "2 idle"
	})
	return s
}

// The batch script of the example, unchanged, with a real Slurm.
func TestSlurmBatchScript(t *testing.T) {
	s := newSlurm(t)
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "slurm", "job.sh"))
	if err != nil {
		t.Fatal(err)
	}
	out, logs, code := s.run("sbatch", "--wait", "--nodes=2", "--cpus-per-task=2", "--output=out.txt", script, "--ppn",
		"2", "hello")
	text, err := os.ReadFile(filepath.Join(s.dir, "out.txt"))
	if code != 0 || err != nil {
		t.Fatalf("sbatch: code %d, %s%s%v\n%s", code, out, logs, err, text)
	}
	for rank, host := range []string{"h0", "h0", "h1", "h1"} {
		if want := fmt.Sprintf("[%d] hello from rank %d of 4, local rank %d of 2 on %s,", rank, rank, rank%2,
			host); !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	s.waitIdle()
	if keys, err := filepath.Glob(filepath.Join(s.dir, "treerun-key*")); err != nil || len(keys) > 0 {
		t.Errorf("the key is left: %v, %v", keys, err)
	}

	// The exit code of the rank that fails is that of the job.
	out, _, code = s.run("sbatch", "--wait", "--nodes=2", "--cpus-per-task=2", "--output=out.txt", script, "--ppn", "1",
		"sh", "-c", `[ $RANK = 1 ] && exit 9; sleep 60`)
	if text, _ := os.ReadFile(filepath.Join(s.dir, "out.txt")); code != 9 ||
		!strings.Contains(string(text), "rank 1 failed first: it exited with code 9") {
		t.Errorf("sbatch: code %d, want 9: %s\n%s", code, out, text)
	}
	s.waitIdle()
}

func TestSlurmSrun(t *testing.T) {
	s := newSlurm(t)
	// Several tasks on a node: the first runs the ranks of all.
	s.write("key", strings.Repeat("0c", 32), 0o600)
	out, logs, code := s.run("srun", "--nodes=2", "--ntasks=4", "--overcommit", "treerun", "--key-file", s.dir+"/key",
		"hello")
	if code != 0 || strings.Count(out, "hello from rank") != 4 ||
		!strings.Contains(out, "[3] hello from rank 3 of 4, local rank 1 of 2 on h1,") {
		t.Errorf("srun: code %d\n%s%s", code, out, logs)
	}
	s.waitIdle()

	// Without a key there must not be a job of its own on each node.
	_, logs, code = s.run("srun", "--nodes=2", "--ntasks=2", "treerun", "hello")
	if code != 64 || !strings.Contains(logs, "according to Slurm: give --key-file") {
		t.Errorf("srun without a key: code %d\n%s", code, logs)
	}

	// One node is one host, and needs no key.
	out, logs, code = s.run("srun", "--nodes=1", "--ntasks=1", "treerun", "-np", "2", "hello")
	if code != 0 || strings.Count(out, "hello from rank") != 2 {
		t.Errorf("srun on one node: code %d\n%s%s", code, out, logs)
	}

	// Ranks keep to the cores that Slurm gives treerun.
	onOne := []string{"--nodes=1", "--ntasks=1", "--cpu-bind=map_cpu:0", "treerun", "--cpus-per-rank", "1"}
	_, logs, code = s.run("srun", append(onOne, "--report-bindings", "hello")...)
	if code != 0 || strings.Count(logs, "treerun: rank ") != 1 || !strings.Contains(logs, "treerun: rank 0: core 0\n") {
		t.Errorf("srun on one core: code %d\n%s", code, logs)
	}
	_, logs, code = s.run("srun", append(onOne, "-np", "2", "hello")...)
	if code != 64 || !strings.Contains(logs, "there is room for 1 rank, not 2, on core 0 (hint: ") {
		t.Errorf("srun on one core: code %d\n%s", code, logs)
	}
	s.waitIdle()
}

// The batch script for programs that continue, with a real Slurm: two ranks are killed one after the other, and get new
// processes on their nodes.
func TestSlurmContinues(t *testing.T) {
	s := newSlurm(t)
	install(t, s.bin, "restorer")
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "slurm", "continues.sh"))
	if err != nil {
		t.Fatal(err)
	}
	out, logs, code := s.run("sbatch", "--wait", "--nodes=2", "--cpus-per-task=2", "--output=out.txt", script, "--ppn",
		"2", "restorer", "-epochs", "2", "-elements", "1000")
	text, err := os.ReadFile(filepath.Join(s.dir, "out.txt"))
	if code != 0 || err != nil {
		t.Fatalf("sbatch: code %d, %s%s%v\n%s", code, out, logs, err, text)
	}
	n := strings.Count(string(text), "] done ")
	if n != 4 || !strings.Contains(string(text), "epoch 2 runs with 4 ranks") {
		t.Errorf("%d ranks are done, want 4, in epoch 2:\n%s", n, text)
	}
	s.waitIdle()
}

// scancel ends the ranks on all nodes.
func TestSlurmCancel(t *testing.T) {
	s := newSlurm(t)
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "slurm", "job.sh"))
	if err != nil {
		t.Fatal(err)
	}
	out, logs, code := s.run("sbatch", "--parsable", "--nodes=2", "--cpus-per-task=2", "--output=out.txt", script, "--ppn",
		"1", "sh", "-c", `echo pid $$; sleep 1000`)
	if code != 0 {
		t.Fatalf("sbatch: code %d, %s%s", code, out, logs)
	}
	s.waitUntil("the ranks", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "out.txt"))
		return strings.Count(string(text), "pid ") == 2
	})
	if _, logs, code := s.run("scancel", strings.TrimSpace(out)); code != 0 {
		t.Fatalf("scancel: code %d, %s", code, logs)
	}
	s.waitIdle()
}

// In an allocation treerun starts its agents by srun: no sshd runs here. Output, stdin and the exit code are those of a
// job by ssh; nothing is left after the loss of a rank or of an agent, a signal, and scancel.
func TestSlurmAgents(t *testing.T) {
	s := newSlurm(t)
	batch := func(script string) (text string, code int) {
		s.write("job.sh", "#!/bin/sh\n"+script, 0o755)
		_, _, code = s.run("sbatch", "--wait", "--nodes=2", "--ntasks-per-node=2", "--output=out.txt", s.dir+"/job.sh")
		out, err := os.ReadFile(filepath.Join(s.dir, "out.txt"))
		if err != nil {
			t.Fatal(err)
		}
		s.waitIdle()
		return string(out), code
	}
	// Options of the user's own steps do not reach those of the agents.
	text, _ := batch("export SLURM_LABELIO=1 SLURM_DEBUG=1 SLURM_STDOUTMODE=file SLURM_EXCLUSIVE=1 SLURM_EPILOG=/bin/id " +
		"SLURM_EXPORT_ENV=NONE SLURM_GPUS_PER_TASK=1\n" +
		"seq 100000 > in; treerun --report-bindings sh -c 'hello; cat | tail -n 1' < in; echo code $?\n")
	for _, want := range []string{"[3] hello from rank 3 of 4, local rank 1 of 2 on h1,", "[0] 100000\n", "code 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	build(t, ".", filepath.Join(s.dir, "treerun")) // the test binary is not pushed
	text, _ = batch("./treerun --push hello; echo code $?\n")
	for _, want := range []string{"[3] hello from rank 3 of 4, local rank 1 of 2 on h1,", "code 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("--push: %q is missing in\n%s", want, text)
		}
	}
	text, code := batch("exec treerun sh -c 'yes | head -c 3000000 | wc -c; test $RANK = 3 && exit 9; sleep 1000'\n")
	if code != 9 || !strings.Contains(text, "rank 3 failed first: it exited with code 9") ||
		strings.Count(text, "] 3000000\n") != 4 {
		t.Errorf("code %d, want 9:\n%.2000s", code, text)
	}
	text, code = batch("exec treerun sh -c 'test $RANK = 2 && kill -KILL $PPID; sleep 1000'\n")
	if code != 125 || !strings.Contains(text, "host h1 was lost") {
		t.Errorf("a killed agent: code %d, want 125:\n%s", code, text)
	}
	text, code = batch("treerun sh -c 'trap \"echo stopped; exit\" TERM; echo up; sleep 1000 & wait' & \n" +
		"until [ $(grep -c up out.txt) = 4 ]; do sleep 0.1; done; kill -TERM $!; wait $!\n")
	if code != 143 || strings.Count(text, "stopped\n") != 4 {
		t.Errorf("SIGTERM: code %d, want 143:\n%s", code, text)
	}
	s.write("job.sh", "#!/bin/sh\nexec treerun sh -c 'echo up; sleep 1000'\n", 0o755)
	out, logs, code := s.run("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=2", "--output=last.txt",
		s.dir+"/job.sh")
	if code != 0 {
		t.Fatalf("sbatch: code %d, %s%s", code, out, logs)
	}
	s.waitUntil("the ranks", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "last.txt"))
		return strings.Count(string(text), "up\n") == 4
	})
	if _, logs, code := s.run("scancel", strings.TrimSpace(out)); code != 0 {
		t.Fatalf("scancel: code %d, %s", code, logs)
	}
	s.waitIdle()
}

// scancel and the end of the time limit give the ranks of all nodes the time to save that Slurm has, in a batch job and
// in one of salloc. Agents and sruns get SIGTERM, too, and go on until the ranks have ended.
func TestSlurmSaves(t *testing.T) {
	s := newSlurm(t)
	s.write("rank.sh", "trap 'sleep 1; echo saved; exit 0' TERM\necho up\nwhile :; do sleep 0.1; done\n", 0o644)
	s.write("job.sh", "#!/bin/sh\ntrap : TERM\nexec > out.txt 2>&1\necho $SLURM_JOB_ID > job\n"+
		"treerun --sigterm-exit-code 0 sh rank.sh\necho code $?\n", 0o755)
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(s.dir, name)) // none before the first line
		return string(text)
	}
	type run struct{ submit, end string }
	runs := []run{{"sbatch", "scancel"}, {"sbatch", "scancel --full"}, {"salloc", "scancel"}}
	if testutil.Thorough() {
		runs = append(runs, run{"sbatch --time=1", "true"}) // Slurm looks at limits every half minute
	}
	for _, r := range runs {
		s.write("out.txt", "", 0o644)
		s.must("sh", "-c", r.submit+" --nodes=2 --ntasks-per-node=1 ./job.sh > log 2>&1 &")
		s.waitUntil("the ranks", func() bool { return strings.Count(read("out.txt"), "up\n") == 2 })
		s.must("sh", "-c", r.end+" "+read("job"))
		if strings.HasSuffix(r.submit, "--time=1") {
			time.Sleep(time.Minute)
		}
		s.waitUntil("the end", func() bool { return strings.Contains(read("out.txt"), "code ") })
		s.waitIdle()
		if text := read("out.txt"); strings.Count(text, "] saved\n") < 2 || !strings.Contains(text, "\ncode 0\n") {
			t.Errorf("%s, %s: want code 0 and two ranks that have saved\n%s\n%s", r.submit, r.end, text, read("log"))
		}
	}
}
