//go:build linux

package fakegpu

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// Job is a job of treerun on fake hosts whose ranks are processes of a test.
type Job struct {
	Hosts []string // a graph per host, as Make takes it
	Ranks int      // on each host
	Env   []string // faults, and other variables of the ranks
	Kills bool     // one rank kills itself: see Kill
	Drops bool     // a rank may drop an error that only its Close returns: then the job fails, and the test does not
}

const (
	rankOf   = "TREERUN_TEST_RANK_OF" // in the environment of a rank: the test that it runs
	killFile = "TREERUN_TEST_KILLED"  // the file that a rank writes before it is killed
)

// Real reports whether the tests run on the GPUs of this machine: scripts/gpu-check.sh sets TREERUN_TEST_GPU=real, and
// TREERUN_TEST_COMMAND to a treerun that was built elsewhere.
func Real() bool { return os.Getenv("TREERUN_TEST_GPU") == "real" }

// needs skips a test that this machine cannot run.
func (j Job) needs(t testing.TB) {
	t.Helper()
	if !Real() {
		testutil.Need(t, testutil.Compilers, Missing())
		return
	}
	fault := func(e string) bool { return !strings.HasPrefix(e, "TREERUN_FAKE_GPU_JITTER=") }
	if len(j.Hosts) > 1 || slices.ContainsFunc(j.Env, fault) {
		testutil.Need(t, testutil.Compilers, errors.New("the GPUs are real ones, which do not fail on request"))
	}
}

// Kill runs a rank of a job with Kills: it makes calls, each with its number from 0 on, until one fails. Rank 1 is
// killed by SIGKILL in the middle of them. If check accepts the error of the call, the test fails if the rank received
// the error more than a minute after the kill: the machine may be busy with other work as well.
func Kill(t testing.TB, rank int, call func(k int) error, check func(err error) error) error {
	t.Helper()
	var err error
	for k := 0; err == nil; k++ {
		if rank == 1 && k == 3 {
			time.AfterFunc(60*time.Millisecond, killSelf)
		}
		err = call(k)
	}
	if err := check(err); err != nil {
		return err
	}
	text, err := os.ReadFile(os.Getenv(killFile))
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(string(text), 10, 64)
	late := time.Since(time.Unix(0, at))
	if t.Attr(fmt.Sprint("rank-", rank, "-informed-after"), fmt.Sprint(late.Milliseconds(), " ms")); late > time.Minute {
		t.Errorf("rank %d received the error late", rank)
	}
	return err
}

func killSelf() {
	if os.WriteFile(os.Getenv(killFile), []byte(strconv.FormatInt(time.Now().UnixNano(), 10)), 0o600) == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// Run runs the test that calls it again as every rank of the job, and reports whether this process is such a rank: then
// the caller continues with rank.Init. In the process that started the job it returns false when all ranks have ended,
// and the test has failed if one of them has.
func (j Job) Run(t testing.TB) bool {
	t.Helper()
	if os.Getenv(rankOf) == t.Name() {
		if j.Kills { // treerun soon stops the others: they must first report their errors
			signal.Ignore(syscall.SIGTERM)
		}
		return true
	}
	j.needs(t)
	treerun, err := command()
	if err != nil {
		t.Fatal(err)
	}
	only := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	test := []string{os.Args[0], "-test.run=" + only, "-test.v", "-test.count=1"}
	dir := t.TempDir()
	flags := []string{"-np", strconv.Itoa(j.Ranks * len(j.Hosts))}
	// Links are measured with a few megabytes on GPUs with little memory.
	env := append(os.Environ(), "TREERUN_FAKE_GPU_MEMORY=100000000", "XDG_CACHE_HOME="+dir, rankOf+"="+t.Name(),
		killFile+"="+filepath.Join(dir, "killed"))
	switch {
	case len(j.Hosts) > 1:
		flags = append(flags, j.severalHosts(t, filepath.Join(dir, "agent"))...)
	case !Real():
		env = append(env, Start(t, j.Hosts[0])...)
	}
	c := exec.CommandContext(t.Context(), treerun, slices.Concat(flags, test)...)
	c.Env = append(env, j.Env...)
	out, err := c.CombinedOutput()
	code, want := 0, j.Ranks*len(j.Hosts)
	if j.Kills {
		code, want = 128+int(syscall.SIGKILL), want-1
	}
	if j.Drops && bytes.Contains(out, []byte("it failed in Close and exited with code 0")) {
		code = 1
	}
	if c.ProcessState.ExitCode() != code {
		t.Errorf("%s: %v, want exit code %d", c, err, code)
	}
	if n := bytes.Count(out, []byte("--- PASS: "+t.Name()+" (")); n != want {
		t.Errorf("%d of %d ranks passed", n, want)
	}
	t.Logf("%s", out)
	return false
}

// severalHosts returns treerun's flags for several fake hosts. The launch agent, which it writes, places the processes
// of a host there.
func (j Job) severalHosts(t testing.TB, agent string) []string {
	var hosts, cases strings.Builder
	for i, graph := range j.Hosts {
		fmt.Fprintf(&hosts, "h%d:%d,", i, j.Ranks)
		fmt.Fprintf(&cases, "h%d) export '%s' ;;\n", i, strings.Join(Start(t, graph), "' '"))
	}
	text := "case $1 in\n" + cases.String() + "esac\nshift\nexec \"$@\"\n"
	if err := os.WriteFile(agent, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-H", strings.TrimSuffix(hosts.String(), ","), "--iface", "lo", "--launch-agent",
		"sh " + agent + " {host}"}
}

// command builds treerun, once per process; the next process puts its own in the same place.
var command = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("TREERUN_TEST_COMMAND"); file != "" {
		return file, nil
	}
	root, err := repository()
	if err != nil {
		return "", fmt.Errorf("fake GPU: %w", err)
	}
	file := filepath.Join(cache(), fmt.Sprintf("treerun-%x", sha256.Sum256([]byte(root)))[:20])
	own := fmt.Sprint(file, ".", os.Getpid())
	err = os.MkdirAll(cache(), 0o700)
	if err == nil {
		err = testutil.Build("github.com/treerun/treerun/cmd/treerun", own)
	}
	if err == nil {
		err = os.Rename(own, file)
	}
	return file, err
})
