package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// treerun is the command, which is built once.
var treerun = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "treerun-")
	if err != nil {
		return "", err
	}
	return dir, testutil.Build("github.com/treerun/treerun/cmd/treerun", filepath.Join(dir, "treerun"))
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := treerun(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// command returns the executable of treerun.
func command(t *testing.T) string {
	t.Helper()
	dir, err := treerun()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "treerun")
}

// build builds a package or file of the module, seen from its root, and returns
// the executable.
func build(t *testing.T, what string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", exe, what)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", what, err, out)
	}
	return exe
}

// The README's program compiles, and prints what the README says.
func TestReadmeProgram(t *testing.T) {
	text := readme(t)
	_, rest, _ := strings.Cut(text, "```go\n")
	code, rest, ok := strings.Cut(rest, "```\n")
	if !ok || strings.Contains(rest, "```go\n") {
		t.Fatal("README.md: want one block of Go")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(rest, "$ treerun -np 4 ./sum\n")
	shown, _, ok := strings.Cut(rest, "\n\n")
	if !ok {
		t.Fatal("README.md: the program's output does not follow it")
	}
	want := slices.Sorted(strings.FieldsFuncSeq(shown, func(r rune) bool { return r == '\n' }))
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}

	cmd := exec.Command(command(t), "-np", "4", "--timeout", "60", build(t, file))
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the README's program: %v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the program prints\n%s\nand the README says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
