//go:build linux

package fakegpu

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// compilers returns the compilers of C and C++, as src/build.sh calls them.
func compilers() [2]string {
	all := [2]string{"cc", "c++"}
	for i, name := range []string{"CC", "CXX"} {
		if given := os.Getenv(name); given != "" {
			all[i] = given
		}
	}
	return all
}

// build makes the libraries by src/build.sh, with these kernels or those of the repository, and returns their folder,
// in the user's cache. They are built once for the same sources, which takes seconds of all cores: tests that need them
// in the meantime wait. The folder gets its name when it is complete.
func build(kernels []string) (string, error) {
	if err := Missing(); err != nil {
		return "", err
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	src := filepath.Join(root, "internal/testutil/fakegpu/src")
	if kernels == nil {
		kernels = found(root+"/cuda/kernels/*.cu", root+"/examples/train/*.cu")
	}
	sources := append(found(src+"/*", root+"/cuda/kernels/*.h", filepath.Dir(kernels[0])+"/*.h"), kernels...)
	key := sha256.New()
	fmt.Fprintln(key, runtime.GOARCH, compilers(), kernels)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(key, "%s %d\n%s", name, len(text), text)
	}
	cache := cache()
	dir := filepath.Join(cache, fmt.Sprintf("%x", key.Sum(nil)[:10]))
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Open(cache)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", cache, err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	out, err := exec.Command("sh", append([]string{src + "/build.sh", work}, kernels...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the libraries: %w\n%s", err, out)
	}
	return dir, os.Rename(work, dir)
}

// cache returns the folder of the built libraries, in the user's cache.
func cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprint("treerun-cache-", os.Getuid()))
	}
	return filepath.Join(dir, "treerun", "fake-gpu")
}

// found returns the files that match some patterns, which are well formed.
func found(patterns ...string) (files []string) {
	for _, p := range patterns {
		some, _ := filepath.Glob(p)
		files = append(files, some...)
	}
	return files
}

// repository returns the root of treerun's repository, in which this process runs.
func repository() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources: go env GOMOD: %w", err)
	}
	return filepath.Dir(string(mod)), nil
}
