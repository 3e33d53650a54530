package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compiler makes the same PTX on every machine, so it has one name.
const compiler = "clang-19"

// flags: for compute capability 7.0 and all later ones; without the headers and
// libraries of the toolkit; no product and sum in one rounding, so that the host
// computes the same.
var flags = []string{
	"--cuda-device-only", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib", "-x", "cuda", "-std=c++17",
	"-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-S",
}

// compilePTX makes the PTX of CUDA sources with clang, which needs nothing of the CUDA toolkit for
// that: every FOLDER/*.cu becomes FOLDER/*.ptx. With --check it writes nothing, and fails where the
// PTX that is there is not what clang makes of the source: what CI runs.
func compilePTX(args []string) error {
	check := false
	if i := slices.Index(args, "--check"); i >= 0 {
		check = true
		args = slices.Delete(slices.Clone(args), i, i+1)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return errors.New("usage: dev ptx [--check] FOLDER, or several of them")
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return fmt.Errorf("%w; it is in Debian's package %s: apt-get install %s", err, compiler, compiler)
	}
	var all []error
	for _, folder := range args {
		all = append(all, compileFolder(folder, check))
	}
	return errors.Join(all...)
}

// compileFolder compiles all sources of a folder. PTX without a source is an
// error, too.
func compileFolder(folder string, check bool) error {
	sources, err := filepath.Glob(filepath.Join(folder, "*.cu"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("%s: no *.cu there", folder)
	}
	var all []error
	for _, source := range sources {
		all = append(all, compileFile(source, check))
	}
	made, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	for _, file := range made {
		if source := strings.TrimSuffix(file, ".ptx") + ".cu"; !slices.Contains(sources, source) {
			all = append(all, fmt.Errorf("%s has no source %s", file, source))
		}
	}
	return errors.Join(append(all, err)...)
}

// compileFile compiles one source in its folder, so that no path gets into the
// PTX.
func compileFile(source string, check bool) error {
	file := strings.TrimSuffix(source, ".cu") + ".ptx"
	cmd := exec.Command(compiler, append(slices.Clone(flags), filepath.Base(source), "-o", "-")...)
	cmd.Dir = filepath.Dir(source)
	var told bytes.Buffer
	cmd.Stderr = &told
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", source, compiler, err, told.Bytes())
	}
	old, err := os.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(old, text):
		return nil
	case !check:
		return os.WriteFile(file, text, 0o644)
	case err != nil:
		return err
	default:
		return fmt.Errorf("%s is not what %s makes of %s (first in line %d): run go generate ./... and commit the result",
			file, compiler, source, firstDifference(old, text))
	}
}

// firstDifference returns the first line in which a and b differ.
func firstDifference(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return bytes.Count(a[:n], []byte("\n")) + 1
}
