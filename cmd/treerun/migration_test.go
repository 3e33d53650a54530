//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// elsewhere are the commands of the page that need more than this host, and the tests that run them.
var elsewhere = map[string]string{
	"treerun --nnodes 4 --node-rank 1 --seed h:29500 --key-file key python3 train.py": "TestNodes",
	"treerun bench -np 8 -b 8 -e 128M -f 2 --device cuda":                             "TestRanksGetGPUs",
	"treerun --map-by numa --cpus-per-rank 2 ./a":                                     "TestScripts/bindings",
	"treerun --map-by l3 ./a":                                                         "TestScripts/bindings",
	"treerun --debug 0 ./a":                                                           "TestDebug",
	"srun ./a":                                                                        "TestSlurmSrun",
	"srun treerun ./a":                                                                "TestSlurmSrun",
}

// TestMigration runs every command that docs/from-mpirun-and-torchrun.md gives for one of another launcher as it stands
// there, in a folder with programs of these names. An ssh that stays on this host stands for hosts a and b.
func TestMigration(t *testing.T) {
	folder := migrationFolder(t)
	commands := migrationCommands(t)
	if len(commands) < 25 {
		t.Fatalf("found %d commands: the test looks in the wrong place", len(commands))
	}
	var missing error
	if runtime.NumCPU() < 2 {
		missing = errors.New("--bind-to core has one core for two ranks")
	}
	testutil.Need(t, testutil.Cores, missing)
	for _, command := range commands {
		if _, ok := elsewhere[command]; ok {
			continue
		}
		t.Run(command, func(t *testing.T) {
			c := exec.Command("sh", "-c", strings.ReplaceAll(command, "--iface eth0", "--iface lo"))
			c.Dir = folder
			c.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(command, "./a") || strings.Contains(command, "train.py") {
				checkRanks(t, ranksOf(command), string(out))
			}
		})
	}
}

// migrationFolder makes a folder with the programs and files that the page's commands name. The programs print their
// rank and the size of the job.
func migrationFolder(t *testing.T) string {
	const program = "#!/bin/sh\necho rank $RANK of $WORLD_SIZE\n"
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a":           program,
		"b":           program,
		"train.py":    program,
		"hosts":       "a slots=3\nb slots=2\n",
		"ranks":       "rank 0=localhost slot=0\nrank 1=+n0 slot=1\n",
		"out/a":       program,
		"bin/python3": "#!/bin/sh\nexec sh \"$@\"\n",
		"bin/ssh":     "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(namedTreerun(t), filepath.Join(folder, "bin/treerun")); err != nil {
		t.Fatal(err)
	}
	return folder
}

var quoted = regexp.MustCompile("`([^`]+)`")

// migrationCommands returns treerun's commands of the page's first table. "The same" stands for the other launcher's
// commands under treerun's name; a lone option is one of a job of two ranks.
func migrationCommands(t *testing.T) (commands []string) {
	page, err := os.ReadFile("../../docs/from-mpirun-and-torchrun.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "\n## Calls")
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 2 {
			continue
		}
		source := cells[1]
		if strings.HasPrefix(source, "the same") {
			source = cells[0] + source
		}
		for _, match := range quoted.FindAllStringSubmatch(source, -1) {
			command := otherLauncher.ReplaceAllString(match[1], "treerun ")
			switch {
			case command == "--iface":
				continue
			case strings.HasPrefix(command, "-"):
				command = "treerun -np 2 " + command + " ./a"
			case command == "NCCL_SOCKET_IFNAME":
				command += "=lo treerun -np 2 ./a"
			}
			if strings.Contains(command, "treerun ") || strings.HasPrefix(command, "srun ") {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

var otherLauncher = regexp.MustCompile("^(mpirun|mpiexec) ")

// ranksOf returns the number of ranks that command asks for, 0 for as many as there are cores.
func ranksOf(command string) (n int) {
	for _, match := range regexp.MustCompile(`(-np|-n|--ppn) ([0-9]+)`).FindAllStringSubmatch(command, -1) {
		ranks, _ := strconv.Atoi(match[2])
		n += ranks
	}
	switch {
	case strings.Contains(command, "-H a:4,b:4"):
		return 8
	case strings.Contains(command, "--hostfile"):
		return 5
	}
	return n
}

// checkRanks checks that output has one line of each rank of a job of n ranks.
func checkRanks(t *testing.T, n int, output string) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range regexp.MustCompile(`rank [0-9]+ of [0-9]+`).FindAllString(output, -1) {
		seen[line]++
	}
	n = cmp.Or(n, len(seen))
	for r := range n {
		if line := fmt.Sprintf("rank %d of %d", r, n); seen[line] != 1 {
			t.Errorf("%q was printed %d times", line, seen[line])
		}
	}
	if n == 0 || len(seen) != n {
		t.Errorf("lines of %d ranks, want %d:\n%s", len(seen), n, output)
	}
}
