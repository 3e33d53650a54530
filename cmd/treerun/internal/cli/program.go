package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// program is what the ranks run.
type program struct {
	Name   string // as the user gave it; the ranks' argv[0]
	Path   string // of the executable, absolute; empty until build when Folder is set
	Folder string // of Go source, absolute; empty when Path is what the user gave

	private string    // the temporary folder that holds Path
	guard   *exec.Cmd // removes private should we be killed
}

// findProgram looks name up: with a slash in it, or . or .., relative to the working
// directory, else in PATH. Its errors carry an exit code.
func findProgram(name string) (*program, error) {
	path := name
	if !strings.Contains(name, "/") && name != "." && name != ".." {
		found, err := exec.LookPath(name)
		if err != nil {
			return nil, notInPath(name)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cmdline.Errorf(cmdline.ExitNotFound, "%s: not found: %w", name, cmdline.Cause(err))
	case err != nil:
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: cannot be run: %w", name, cmdline.Cause(err))
	case info.IsDir():
		return &program{Name: name, Folder: path}, nil
	case !info.Mode().IsRegular():
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: cannot be run: not a regular file", name)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		hint := "chmod +x makes a program executable"
		if strings.HasSuffix(name, ".go") {
			hint = fmt.Sprintf("give the folder of a Go program: %s", "./"+filepath.Dir(name))
		}
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: not executable: %w (%s)", name, err, hint)
	}
	return &program{Name: name, Path: path}, nil
}

// notInPath says more than exec.LookPath does about a name that it did not find.
func notInPath(name string) error {
	if _, err := os.Stat(name); err == nil {
		return cmdline.Errorf(cmdline.ExitNotFound, "%s: not found in PATH (write ./%s for the one in this folder)", name,
			name)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return cmdline.Errorf(cmdline.ExitNotExecutable, "%s: found as %s, which is not executable", name, path)
		}
	}
	meant := ""
	if near := cmdline.Nearest(name, append(listedCommands(), "help")); near != "" {
		meant = didYouMean(name)
	}
	return cmdline.Errorf(cmdline.ExitNotFound, "%s: not found in PATH%s", name, meant)
}

// remove deletes what build has made. Processes that run it already go on. It
// may be called at any time and any number of times.
func (p *program) remove() error {
	if p.private == "" {
		return nil
	}
	err := os.RemoveAll(p.private)
	p.private = ""
	if p.guard != nil {
		_ = p.guard.Process.Kill() // fails only where it has ended
		_ = p.guard.Wait()         // its state does not matter
	}
	if err != nil {
		return fmt.Errorf("remove the built program: %w", err)
	}
	return nil
}
