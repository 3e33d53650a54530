package docs_test

import (
	"errors"
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

// programs is the folder of the command and of the README's program, which are built once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "treerun-")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		return dir, err
	}
	main := filepath.Join(dir, "main.go")
	if err := os.WriteFile(main, []byte(blocks(string(text), "go")[0]), 0o600); err != nil {
		return dir, err
	}
	return dir, errors.Join(testutil.Build(main, filepath.Join(dir, "readme-sum")),
		testutil.Build("github.com/treerun/treerun/cmd/treerun", filepath.Join(dir, "treerun")))
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := programs(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// built returns the executable of treerun, or readme-sum.
func built(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// The README's program compiles, and prints the output that the README shows.
func TestReadmeProgram(t *testing.T) {
	text := readme(t)
	_, rest, _ := strings.Cut(text, "```go\n")
	_, rest, ok := strings.Cut(rest, "```\n")
	if !ok || strings.Contains(rest, "```go\n") {
		t.Fatal("README.md: want one block of Go")
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

	cmd := exec.Command(built(t, "treerun"), "-np", "4", "--timeout", "60", built(t, "readme-sum"))
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the README's program: %v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the program prints\n%s\nand the README shows\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
