package fakegpu

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Job is a job of treerun on fake hosts whose ranks are processes of a test.
type Job struct {
	Hosts []string // a graph per host, as in Options
	Ranks int      // on each host
	Env   []string // faults, and what else the ranks need
}

// rankOf names, in the environment of a rank, the test that it runs.
const rankOf = "TREERUN_TEST_RANK_OF"

// Run runs the test that calls it once more as every rank of the job, and reports
// whether this process is such a rank: then the caller goes on with rank.Init. In
// the process that started the job it returns false when all ranks have ended, and
// the test has failed where one of them has.
func (j Job) Run(t testing.TB) bool {
	t.Helper()
	if os.Getenv(rankOf) == t.Name() {
		return true
	}
	testutil.Need(t, testutil.Compilers, Missing())
	treerun, err := command()
	if err != nil {
		t.Fatal(err)
	}
	only := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	test := []string{os.Args[0], "-test.run=" + only, "-test.v", "-test.count=1"}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seed, cache := testutil.FreeAddress(t), t.TempDir()
	var out bytes.Buffer
	var jobs []*exec.Cmd
	// Ranks have the environment of the first treerun, also those of other hosts.
	script := `exec "$@"`
	for i, graph := range j.Hosts {
		env := Start(t, graph)
		flags := []string{"-np", strconv.Itoa(j.Ranks)}
		if len(j.Hosts) > 1 {
			flags = []string{"--nnodes", strconv.Itoa(len(j.Hosts)), "--node-rank", strconv.Itoa(i), "--seed", seed,
				"--key-file", key, "--ppn", strconv.Itoa(j.Ranks)}
			script = fmt.Sprintf("test $RANK -lt %d || export %s; ", i*j.Ranks, env[0]) + script
		}
		c := exec.CommandContext(t.Context(), treerun, flags...)
		// Links are measured with a few megabytes where GPUs have little memory.
		c.Env = append(append(append(os.Environ(), "TREERUN_FAKE_GPU_MEMORY=100000000", "XDG_CACHE_HOME="+cache,
			rankOf+"="+t.Name()), env...), j.Env...)
		c.Stdout, c.Stderr = &out, &out
		jobs = append(jobs, c)
	}
	for i, c := range jobs {
		c.Args = append(append(c.Args, "sh", "-c", script, "sh"), test...)
		if i > 0 {
			c.Stdout, c.Stderr = nil, nil // the first one prints everything
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range jobs {
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", strings.Join(c.Args, " "), err)
		}
	}
	if n, want := strings.Count(out.String(), "--- PASS: "+t.Name()+" ("), j.Ranks*len(j.Hosts); t.Failed() || n != want {
		t.Errorf("%d of %d ranks passed:\n%s", n, want, &out)
	}
	return false
}

// command builds treerun, once per process, which removes it at its end.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "treerun-")
	if err != nil {
		return "", fmt.Errorf("fake GPU: %w", err)
	}
	g, err := guard(dir)
	if err != nil {
		return "", err
	}
	open = append(open, g)
	file := filepath.Join(dir, "treerun")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", file,
		"github.com/treerun/treerun/cmd/treerun").CombinedOutput(); err != nil {
		return "", fmt.Errorf("fake GPU: build treerun: %w: %s", err, out)
	}
	return file, nil
})

// open are files that stay open as long as the process lives.
var open []*os.File
