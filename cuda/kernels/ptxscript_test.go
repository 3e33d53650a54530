package kernels_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compiler is the compiler that ptx.sh calls.
const compiler = "clang-19"

// compilePTX runs ptx.sh; its output is in the error.
func compilePTX(args []string) error {
	out, err := exec.Command("../../scripts/ptx.sh", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// standIn puts a clang-19 into PATH that makes PTX of a source by copying it, and
// refuses a source with the word error.
func standIn(t *testing.T) {
	t.Helper()
	const script = `#!/bin/sh
for file; do
	case $file in
	*.cu)
		if grep -q error "$file"; then echo "$file:1: it says error" >&2; exit 1; fi
		cat "$file"
	esac
done
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, compiler), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want one with %q", err, w)
		}
	}
}

func TestCompileAndCheck(t *testing.T) {
	standIn(t)
	dir := t.TempDir()
	refused(t, compilePTX([]string{dir}), "no *.cu there")

	write(t, filepath.Join(dir, "a.cu"), "one\ntwo\n")
	write(t, filepath.Join(dir, "b.cu"), "three\n")
	refused(t, compilePTX([]string{"--check", dir}), "a.ptx", "b.ptx")
	if made, _ := filepath.Glob(filepath.Join(dir, "*.ptx")); made != nil {
		t.Errorf("--check wrote %v", made)
	}
	if err := compilePTX([]string{dir}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a.ptx")); string(text) != "one\ntwo\n" {
		t.Errorf("a.ptx is %q, %v", text, err)
	}
	if err := compilePTX([]string{"--check", dir}); err != nil {
		t.Error(err)
	}

	write(t, filepath.Join(dir, "a.cu"), "one\n2\n")
	refused(t, compilePTX([]string{"--check", dir}), "a.ptx is not what", "line 2", "go generate")
	if err := compilePTX([]string{dir}); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "a.cu"), "error\n")
	refused(t, compilePTX([]string{dir}), "a.cu", "it says error")
	if err := os.Remove(filepath.Join(dir, "a.cu")); err != nil {
		t.Fatal(err)
	}
	refused(t, compilePTX([]string{"--check", dir}), "a.ptx has no source")
}

func TestPTXUsage(t *testing.T) {
	standIn(t)
	refused(t, compilePTX(nil), "usage")
	refused(t, compilePTX([]string{"--check"}), "usage")
	refused(t, compilePTX([]string{"--chekc", "."}), "usage")
}

func TestNoCompiler(t *testing.T) {
	dir := t.TempDir() // with bash alone
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bash, filepath.Join(dir, "bash")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	refused(t, compilePTX([]string{"."}), compiler, "apt-get install")
}
