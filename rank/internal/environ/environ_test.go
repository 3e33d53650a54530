//go:build linux

package environ

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// env returns an environment from "A=1 B=2", with a configuration folder of its own.
func env(t *testing.T, text string) func(name string) string {
	vars := map[string]string{}
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		vars[name] = value
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "config"))
	return func(name string) string { return vars[name] }
}

func TestEveryLaunchersEnvironmentIsUnderstood(t *testing.T) {
	const seed = " TREERUN_SEED=127.0.0.1:7000"
	const master = " MASTER_ADDR=127.0.0.1 MASTER_PORT=7000"
	for _, c := range []struct {
		name, env            string
		rank, size           int
		localRank, localSize int
		jobID                string
	}{
		{"by hand", "TREERUN_RANK=1 TREERUN_SIZE=3 TREERUN_LOCAL_RANK=0 TREERUN_LOCAL_SIZE=1 TREERUN_JOB_ID=mine" + seed, 1,
			3, 0, 1, "mine"},
		{"torchrun", "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none " +
			"TORCHELASTIC_RESTART_COUNT=2" + master, 3, 4, 1, 2, "none.2"},
		{"torch by hand", "RANK=0 WORLD_SIZE=2" + master, 0, 2, -1, 0, "127.0.0.1:7000"},
		{"torchrun with its own store", "RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True" + master +
			" TREERUN_SEED=localhost:7001", 0, 2, -1, 0, "localhost:7001"},
		{"Open MPI", "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=2 " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=prterun-host-77@1 PMIX_RANK=5" + seed, 5, 6, 2, 3, "prterun-host-77@1"},
		{"MPICH", "PMI_RANK=1 PMI_SIZE=2 PMI_FD=7 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2" + seed, 1, 2, 1, 2, "127.0.0.1:7000"},
		{"srun", "SLURM_PROCID=9 SLURM_NTASKS=10 SLURM_LOCALID=4 SLURM_JOB_ID=123 SLURM_STEP_ID=0" + seed, 9, 10, 4, 0,
			"123.0"},
		{"LeaderWorkerSet", "LWS_LEADER_ADDRESS=lws-0.lws LWS_WORKER_INDEX=2 LWS_GROUP_SIZE=4" + seed, 2, 4, -1, 0,
			"lws-0.lws"},
		{"JobSet", "JOB_COMPLETION_INDEX=2 TREERUN_SIZE=4 TREERUN_JOB_ID=x" + seed, 2, 4, -1, 0, "x"},
		{"the name wins over others", "TREERUN_RANK=1 TREERUN_SIZE=2 RANK=7 WORLD_SIZE=8" + seed, 1, 2, -1, 0,
			"127.0.0.1:7000"},
	} {
		cfg, err := Find(env(t, c.env))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if cfg.Rank != c.rank || cfg.Size != c.size || cfg.LocalRank != c.localRank || cfg.LocalSize != c.localSize ||
			cfg.JobID != c.jobID {
			t.Errorf("%s: read as %+v", c.name, cfg)
		}
		if len(cfg.Secret) != job.SecretBytes || cfg.Seed == "" || cfg.Host == "" {
			t.Errorf("%s: secret of %d bytes, seeds %q, host %q", c.name, len(cfg.Secret), cfg.Seed, cfg.Host)
		}
	}
}

func TestWithoutALauncherARankIsAlone(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                    "HOME=/root PATH=/bin",
		"batch script of Slurm":      "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1",
		"batch step of Slurm":        "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1 SLURM_STEP_ID=4294967291",
		"indexed Job, not of ranks":  "JOB_COMPLETION_INDEX=3",
		"one task":                   "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1",
		"one process of Open MPI":    "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1",
		"one process, with a job id": "PMI_RANK=0 PMI_SIZE=1 TREERUN_JOB_ID=x",
	} {
		cfg, err := Find(env(t, text))
		if err != nil || cfg.Size != 1 || cfg.Rank != 0 || cfg.JobID == "" || len(cfg.Secret) != job.SecretBytes {
			t.Errorf("%s: %+v, error %v", name, cfg, err)
		}
	}
}

// Schedulers that name the first host need only a key, and launchers of one host need nothing. All ranks find the same
// address.
func TestSeedFollowsFromTheLauncher(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", job.SecretBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	const slurm = "SLURM_STEP_NUM_TASKS=4 SLURM_JOB_ID=77 SLURM_STEP_ID=3 SLURM_STEP_NODELIST="
	for _, c := range []struct {
		name, rank, env, host string
		epoch                 int
	}{
		{"Slurm", "SLURM_PROCID", slurm + "n[07-09,12],gpu1 SLURM_RESTART_COUNT=2", "n07", 2},
		{"Slurm, several brackets", "SLURM_PROCID", slurm + "r[2,4]n[003-004].x SLURM_STEP_NUM_NODES=4", "r2n003.x", 0},
		{"Slurm, plain names", "SLURM_PROCID", slurm + "beta,alpha", "beta", 0},
		{"Slurm, one name", "SLURM_PROCID", slurm + "login-1", "login-1", 0},
		{"Slurm, one node", "SLURM_PROCID", slurm + "n07 SLURM_STEP_NUM_NODES=1", "127.0.0.1", 0},
		{"torchrun with its own store", "RANK",
			"WORLD_SIZE=4 MASTER_ADDR=n1 MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=x " +
				"TORCHELASTIC_RESTART_COUNT=1", "n1", 1},
		{"Open MPI on one host", "OMPI_COMM_WORLD_RANK",
			"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=2042822657", "127.0.0.1", 0},
		{"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE=4 LWS_LEADER_ADDRESS=lws-0.lws.ns", "lws-0.lws.ns", 0},
		{"JobSet", "JOB_COMPLETION_INDEX", "TREERUN_SIZE=4 JOBSET_NAME=js JOBSET_RESTART_ATTEMPT=5 " +
			"JOBSET_COORDINATOR=js-w-0-0.js", "js-w-0-0.js", 5},
		{"an epoch of the user's", "TREERUN_RANK", "TREERUN_SIZE=4 TREERUN_JOB_ID=x TREERUN_EPOCH=9 TREERUN_SEED=n1:7000",
			"n1", 9},
	} {
		ports := map[string]bool{}
		for r := range 4 {
			cfg, err := Find(env(t, fmt.Sprintf("%s TREERUN_KEY_FILE=%s %s=%d", c.env, key, c.rank, r)))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				break
			}
			host, port, err := net.SplitHostPort(cfg.Seed)
			if err != nil || host != c.host || cfg.Rank != r || cfg.Size != 4 || cfg.Epoch != c.epoch {
				t.Errorf("%s: rank %d of %d, epoch %d, seed %s; want host %s", c.name, cfg.Rank, cfg.Size, cfg.Epoch, cfg.Seed,
					c.host)
			}
			ports[port] = true
		}
		if len(ports) != 1 {
			t.Errorf("%s: ports %v", c.name, ports)
		}
	}
	cfg, err := Find(env(t, slurm+"n1 SLURM_PROCID=1 TREERUN_PORT_RANGE=7100-7103 TREERUN_KEY_FILE="+key))
	if err != nil || !strings.HasPrefix(cfg.Seed, "n1:710") {
		t.Errorf("with a range of ports: %+v, %v", cfg, err)
	}
}

// The settings of treerun's flags come from variables of their names, and --iface also from NCCL's variable.
func TestSettingsFromTheEnvironment(t *testing.T) {
	const base = "RANK=0 WORLD_SIZE=2 TREERUN_SEED=127.0.0.1:7000 "
	for _, c := range []struct {
		env, iface  string
		ports       netconn.PortRange
		peerTimeout time.Duration
	}{
		{"NCCL_SOCKET_IFNAME=^docker,lo", "^docker,lo", netconn.PortRange{}, 10 * time.Second},
		{"NCCL_SOCKET_IFNAME=ib TREERUN_IFACE==eth0", "=eth0", netconn.PortRange{}, 10 * time.Second},
		{"TREERUN_PORT_RANGE=40000-40050 TREERUN_PEER_TIMEOUT=3s", "", netconn.PortRange{Lo: 40000, Hi: 40050},
			3 * time.Second},
		{"TREERUN_PEER_TIMEOUT=12", "", netconn.PortRange{}, 12 * time.Second},
		{"TREERUN_PEER_TIMEOUT=1.5", "", netconn.PortRange{}, 1500 * time.Millisecond},
	} {
		cfg, err := Find(env(t, base+c.env))
		if err != nil {
			t.Fatal(err)
		}
		got := Settings{PeerTimeout: 10 * time.Second}
		err = cfg.Parse(&got)
		if err != nil || got.Iface.String() != c.iface || got.Ports != c.ports ||
			got.PeerTimeout != c.peerTimeout {
			t.Errorf("%s: %+v, %v", c.env, got, err)
		}
	}
	cfg, err := Find(env(t, base+"TREERUN_GRAPH=dgx1v TREERUN_ALGORITHM=packing,max-trees=4 TREERUN_PLAN=p.json"))
	if s := cfg.Settings; err != nil || s["graph"] != "dgx1v" || s["algorithm"] != "packing,max-trees=4" ||
		s["plan"] != "p.json" {
		t.Errorf("settings %v, %v", s, err)
	}
	for text, want := range map[string]string{
		"TREERUN_IFACE=,":                 `TREERUN_IFACE: "," has an empty element`,
		"NCCL_SOCKET_IFNAME=a,,b":         "NCCL_SOCKET_IFNAME: ",
		"TREERUN_PORT_RANGE=7":            `TREERUN_PORT_RANGE: "7" is no range of ports, want LO-HI`,
		"TREERUN_PORT_RANGE=9-8":          "is no range of ports",
		"TREERUN_PORT_RANGE=0-8":          "is no range of ports",
		"TREERUN_PORT_RANGE=1-65536":      "is no range of ports",
		"TREERUN_START_TIMEOUT=-1s":       `TREERUN_START_TIMEOUT is "-1s", want a time`,
		"TREERUN_PEER_TIMEOUT=1ms":        "from 200ms to",
		"TREERUN_STALL_TIMEOUT=0.01":      "from 100ms to",
		"TREERUN_PEER_TIMEOUT=9999999h":   "want a time",
		"TREERUN_START_TIMEOUT=yesterday": "want a time",
	} {
		cfg, err := Find(env(t, base+text))
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.Parse(&Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// Each error names the variable and a remedy.
func TestEnvironmentThatMakesNoSenseIsAnError(t *testing.T) {
	const seed = " TREERUN_SEED=127.0.0.1:7000"
	for text, want := range map[string]string{
		"RANK=1" + seed:                     "environment of torchrun: RANK is set but WORLD_SIZE is not",
		"WORLD_SIZE=2" + seed:               "WORLD_SIZE is set but RANK is not",
		"RANK=2 WORLD_SIZE=2" + seed:        "RANK=2, want 0..1",
		"RANK=-1 WORLD_SIZE=2" + seed:       "RANK=-1, want 0..1",
		"RANK=one WORLD_SIZE=2" + seed:      `RANK="one" is not a number`,
		"RANK=0 WORLD_SIZE=0" + seed:        "WORLD_SIZE=0, want 1..65536",
		"RANK=0 WORLD_SIZE=99999999" + seed: "WORLD_SIZE=99999999, want",
		"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=2" +
			seed: "MPI_LOCALRANKID=2, want 0..1",
		"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=3" +
			seed: "MPI_LOCALNRANKS=3, want 1..2",
		"TREERUN_SIZE=3" + seed: "TREERUN_SIZE is set but TREERUN_RANK is not",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2": "set " +
			"TREERUN_SEED=HOST:PORT on all ranks",
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1": "MASTER_ADDR is set but MASTER_PORT is not",
		"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=1 " +
			"SLURM_STEP_NODELIST=n[a-b]": "SLURM_STEP_NODELIST=\"n[a-b]\" is no list of nodes; set TREERUN_SEED",
		"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=1 SLURM_STEP_NODELIST=n[1": "is no " +
			"list of nodes",
		"SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=3 SLURM_STEP_ID=0 " +
			"SLURM_JOB_ID=1": "SLURM_PROCID=2, want 0..1",
		"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=1 SLURM_STEP_NODELIST=n[1-2]": "the " +
			"ranks have no key; make one with `openssl rand -hex 32",
		"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=1 SLURM_RESTART_COUNT=x" +
			seed: `SLURM_RESTART_COUNT="x" is not a number`,
		"LWS_WORKER_INDEX=4 LWS_GROUP_SIZE=4 LWS_LEADER_ADDRESS=lws-0.lws": "environment of LeaderWorkerSet: " +
			"LWS_WORKER_INDEX=4, want 0..3",
		"JOB_COMPLETION_INDEX=1 JOBSET_COORDINATOR=js-w-0-0.js": "environment of JobSet: JOB_COMPLETION_INDEX " +
			"is set but TREERUN_SIZE is not",
		"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 " +
			"MPI_LOCALNRANKS=2": "environment of PMI: the ranks do not know where rank 0 listens; set TREERUN_SEED",
		"RANK=0 WORLD_SIZE=2 TREERUN_SEED=node1":      "TREERUN_SEED: address node1: missing port",
		"RANK=0 WORLD_SIZE=2 TREERUN_SEED=node1:0":    `"node1:0", want HOST:PORT with a port from 1 to 65535`,
		"RANK=0 WORLD_SIZE=2 TREERUN_SEED=node1:http": `want HOST:PORT`,
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1 " +
			"MASTER_PORT=0": `MASTER_ADDR and MASTER_PORT are "node1:0", want HOST:PORT`,
		"RANK=0 WORLD_SIZE=2 TREERUN_SEED=:7000": `want HOST:PORT`,
		"RANK=0 WORLD_SIZE=2 TREERUN_SEED=node1:7000": "the " +
			"ranks have no key; make one with `openssl rand -hex 32",
		"RANK=0 WORLD_SIZE=2 TREERUN_JOB_ID=\x01" +
			seed: "printable characters without spaces; TREERUN_JOB_ID sets it",
		"RANK=0 WORLD_SIZE=2 TREERUN_KEY_FILE=/nowhere/key" +
			seed: "TREERUN_KEY_FILE: open /nowhere/key",
		"TREERUN_RANK=1 TREERUN_SIZE=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " +
			"TREERUN_JOB_ID=abc": "perhaps by one of its ranks, and is no part of that job",
		"TREERUN_JOB_FD=x":   `TREERUN_JOB_FD="x", want the number of a descriptor`,
		"TREERUN_JOB_FD=1":   `want the number of a descriptor`,
		"TREERUN_JOB_FD=987": "a wrapper between treerun and this program has closed it",
	} {
		if cfg, err := Find(env(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, error %v\nwant one with %s", text, cfg, err, want)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // with any umask
			t.Fatal(err)
		}
		return path
	}
	const digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	for _, mode := range []os.FileMode{0o600, 0o400} {
		key, err := job.ReadKeyFile(write(mode.String(), digits+"\n", mode))
		if err != nil || len(key) != job.SecretBytes || key[31] != 31 {
			t.Errorf("mode %v: key %x, error %v", mode, key, err)
		}
	}
	for want, path := range map[string]string{
		"has mode 0644":           write("open", digits, 0o644),
		"has mode 0620":           write("writable", digits, 0o620),
		"does not hold 64":        write("short", digits[2:], 0o600),
		"has more than 128 bytes": write("long", strings.Repeat(digits, 100), 0o600),
		"does not hold":           write("words", strings.Repeat("x", 64), 0o600),
		"is no regular file":      dir,
		"no such file":            filepath.Join(dir, "none"),
	} {
		if _, err := job.ReadKeyFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Ranks that start at the same time, and find no key, agree on one.
func TestUserKeyIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config", "treerun")
	var keys [16]string
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := userKey(filepath.Join(dir, "key"))
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	all.Wait()
	for _, k := range keys {
		if k != keys[0] || len(k) != job.SecretBytes {
			t.Fatalf("keys %x and %x", k, keys[0])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v stand in the folder, error %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, error %v", info.Mode(), err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte(strings.Repeat("0f", job.SecretBytes) + "\n"))
	f.Add([]byte("secret"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key, err := job.ParseKey("file", text); err == nil && len(key) != job.SecretBytes {
			t.Fatalf("key of %d bytes", len(key))
		}
	})
}

// Whatever the variables hold, the ranks that come out are possible ones.
func FuzzEnvironment(f *testing.F) {
	f.Add("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=7000")
	f.Add("SLURM_PROCID=9 SLURM_NTASKS=10 SLURM_LOCALID=4 SLURM_JOB_ID=1 SLURM_STEP_ID=0 TREERUN_SEED=[::1]:7")
	f.Add("TREERUN_RANK=99999999999999999999 TREERUN_SIZE=2")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, job.EnvFD) || strings.Contains(text, job.EnvKeyFile) {
			return // descriptors and files of the test itself
		}
		cfg, err := Find(env(t, text))
		if err == nil && (cfg.Rank < 0 || cfg.Rank >= cfg.Size || cfg.Size > job.MaxRanks || cfg.LocalRank >= cfg.Size ||
			cfg.LocalSize > cfg.Size || job.CheckID(cfg.JobID) != nil || cfg.Size > 1 && cfg.Seed == "") {
			t.Fatalf("%q: %+v", text, cfg)
		}
	})
}

// Only loopback addresses and localhost are certain to be the loopback: the name of a host may stand for it on that
// host, and for another address on all others.
func TestWhichSeedsAreLoopback(t *testing.T) {
	for seed, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"10.0.0.1:1": false, "node1:1": false, "[fd00::1]:1": false, "nonsense": false, "": false,
	} {
		if got := (&Job{Seed: seed}).SeedIsLoopback(); got != want {
			t.Errorf("%s: %v, want %v", seed, got, want)
		}
	}
}

// A job file works once.
func TestJobFileIsEmptyAfterItWasRead(t *testing.T) {
	file := unlinked(t, &job.File{
		Version: job.FileVersion, JobID: "x", Secret: make([]byte, job.SecretBytes), Size: 1, LocalSize: 1, Host: "here",
		Hosts: []int{0}, ControlFD: 1000, // not open; comes after the file
	})
	defer file.Close()
	for _, want := range []string{"control socket at descriptor 1000", "another program of this rank has read it before"} {
		fd, err := syscall.Dup(int(file.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inherit(fmt.Sprint(fd)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// A descriptor that is not the job file, or not the control socket, is reported as one that a wrapper has closed, and
// is neither read nor closed: a file with a name, a file of the system, a pipe, a socket between hosts.
func TestDescriptorsOfOthers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	named, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	system, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	pipe, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	f := &job.File{
		Version: job.FileVersion, JobID: "x", Secret: make([]byte, job.SecretBytes), Size: 1, LocalSize: 1, Host: "here",
		Hosts: []int{0}, ControlFD: int(socket.Fd()),
	}
	if _, err := named.Write([]byte("-1\n")); err != nil { // as the limit of a control group reads
		t.Fatal(err)
	}
	ours := unlinked(t, f)
	for _, file := range []*os.File{named, system, pipe, socket, ours} {
		before, _ := file.Seek(0, io.SeekCurrent)
		fd := int(file.Fd())
		if file == ours { // which is taken
			if fd, err = syscall.Dup(fd); err != nil {
				t.Fatal(err)
			}
		}
		_, err := inherit(fmt.Sprint(fd))
		if err == nil || !strings.Contains(err.Error(), "closed it (hint: Python's subprocess takes close_fds=False or "+
			"pass_fds=(3, 4)") {
			t.Errorf("%s: %v", file.Name(), err)
		}
		if after, _ := file.Seek(0, io.SeekCurrent); file != ours && after != before {
			t.Errorf("%s: the offset has moved from %d to %d", file.Name(), before, after)
		}
		if err := file.Close(); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
	}
}

// unlinked returns a file without a name that contains f.
func unlinked(t *testing.T, f *job.File) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = errors.Join(os.Remove(file.Name()), job.WriteFile(file, f))
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
