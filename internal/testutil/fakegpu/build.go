package fakegpu

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

//go:embed src/*.c src/*.h
var sources embed.FS

// The parts of src: what only one of the libraries is made of, by the beginning
// of its name. The rest belongs to the driver.
var shared = []string{"topology.c", "board.c"}

func compilers() []string {
	cc, cxx := os.Getenv("CC"), os.Getenv("CXX")
	if cc == "" {
		cc = "cc"
	}
	if cxx == "" {
		cxx = "c++"
	}
	return []string{cc, cxx}
}

var buildOnce sync.Mutex // one build at a time in a process

// build makes the libraries, if nobody has made them of the same sources before,
// and returns the folders that hold them.
func build(kernels []string) ([]string, error) {
	buildOnce.Lock()
	defer buildOnce.Unlock()
	if err := Missing(); err != nil {
		return nil, err
	}
	libs, err := cached(sourcesOf(sources), buildLibraries)
	if err != nil {
		return nil, err
	}
	if kernels == nil {
		if kernels, err = ownKernels(); err != nil {
			return nil, err
		}
	}
	if len(kernels) == 0 {
		return []string{libs}, nil
	}
	texts, err := kernelTexts(kernels)
	if err != nil {
		return nil, err
	}
	with, err := cached(texts, func(dir string) error { return buildKernels(dir, kernels) })
	if err != nil {
		return nil, err
	}
	return []string{libs, with}, nil
}

// sourcesOf returns the text of all files, with their names.
func sourcesOf(files fs.FS) []string {
	var texts []string
	names, err := fs.Glob(files, "src/*")
	for _, name := range names {
		var data []byte
		if data, err = fs.ReadFile(files, name); err != nil {
			break
		}
		texts = append(texts, name+"\n"+string(data))
	}
	if err != nil {
		panic(err) // they are built in
	}
	return texts
}

// ownKernels returns the kernel sources of the repository that this process runs
// in: those of treerun and those of the example.
func ownKernels() ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for ; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module github.com/treerun/treerun\n") {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil, errors.New("the kernels' sources are not found: run it inside treerun's repository")
		}
	}
	var all []string
	for _, folder := range []string{"cuda/kernels", "examples/train"} {
		found, err := filepath.Glob(filepath.Join(dir, folder, "*.cu"))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// kernelTexts returns the text of the sources and of the headers beside them.
func kernelTexts(kernels []string) ([]string, error) {
	files := slices.Clone(kernels)
	for _, k := range kernels {
		headers, err := filepath.Glob(filepath.Join(filepath.Dir(k), "*.h"))
		if err != nil {
			return nil, err
		}
		files = append(files, headers...)
	}
	slices.Sort(files)
	var texts []string
	for _, name := range slices.Compact(files) {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, name+"\n"+string(data))
	}
	return texts, nil
}

// cached returns a folder with what make builds from texts: an earlier one of
// this user's cache, or a new one. Two processes may make it at the same time:
// it gets its name when it is whole.
func cached(texts []string, make func(dir string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprint("treerun-cache-", os.Getuid()))
	}
	cache = filepath.Join(cache, "treerun", "fake-gpu")
	key := sha256.Sum256([]byte(strings.Join(append(texts, compilers()...), "\x00") + flagsKey))
	dir := filepath.Join(cache, fmt.Sprintf("%x", key[:10]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := make(work); err != nil {
		return "", err
	}
	if err := os.Rename(work, dir); err != nil && !exists(dir) {
		return "", err
	}
	return dir, nil
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

var (
	cFlags = []string{"-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
		"-pthread"}
	cuFlags = []string{"-std=c++17", "-x", "c++", "-DTREERUN_HOST", "-O2", "-ffp-contract=off", "-fPIC",
		"-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-c"}
	flagsKey = fmt.Sprint(cFlags, cuFlags, runtime.GOARCH)
)

// buildLibraries makes the driver and NVML.
func buildLibraries(dir string) error {
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(dir, "src", "*.c"))
	if err != nil {
		return err
	}
	var cuda, nvml []string
	for _, file := range all {
		name := filepath.Base(file)
		ofNVML := strings.HasPrefix(name, "nvml")
		if ofNVML || slices.Contains(shared, name) {
			nvml = append(nvml, file)
		}
		if !ofNVML {
			cuda = append(cuda, file)
		}
	}
	for name, files := range map[string][]string{"libcuda.so.1": cuda, "libnvidia-ml.so.1": nvml} {
		link := []string{"-shared", "-Wl,-z,nodelete", "-Wl,--no-undefined", "-Wl,-soname," + name, "-o",
			filepath.Join(dir, name)}
		if err := compile(compilers()[0], cFlags, files, link); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "src"))
}

// buildKernels makes libtreerun_kernels.so: one object a source, as many at a
// time as there are cores.
func buildKernels(dir string, kernels []string) error {
	include := []string{"-I" + filepath.Dir(kernels[0])}
	errs := make([]error, len(kernels))
	objects := make([]string, len(kernels))
	free := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, k := range kernels {
		objects[i] = filepath.Join(dir, fmt.Sprint(i, ".o"))
		wg.Go(func() {
			free <- struct{}{}
			errs[i] = compile(compilers()[1], append(slices.Clone(cuFlags), include...), []string{k}, []string{"-o", objects[i]})
			<-free
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := compile(compilers()[1], nil, objects,
		[]string{"-shared", "-o", filepath.Join(dir, "libtreerun_kernels.so")}); err != nil {
		return err
	}
	for _, o := range objects {
		if err := os.Remove(o); err != nil {
			return err
		}
	}
	return nil
}

func compile(compiler string, flags, files, rest []string) error {
	cmd := exec.Command(compiler, slices.Concat(flags, files, rest)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the fake GPU's libraries: %s %s: %w\n%s", compiler, filepath.Base(files[0]), err, out)
	}
	return nil
}
