package agent

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Node is the treerun of a node: an agent that a user, or a scheduler, has
// started with a command line of its own.
type Node struct {
	Program string           // as the user gave it
	Path    string           // of the executable, absolute
	Dir     string           // working directory of the ranks
	Signals <-chan os.Signal // those that stop the job; they go to the launcher
}

// Run runs the ranks of this node for the launcher, which is at the other end of raw,
// and closes that. It returns the exit code of the job. An error is one that the
// launcher may not know of.
func (n *Node) Run(raw io.ReadWriteCloser) (int, error) {
	defer raw.Close()
	return obeyAs(n, raw)
}

// end returns what came of the job, nil where the launcher has not told. err is why no more
// is heard of it.
func (n *Node) end(result *wire.Result, err error) (int, error) {
	switch {
	case result != nil && result.Text != "":
		return 0, cmdline.Errorf(result.Code, "node 0: %s", result.Text)
	case result != nil:
		return result.Code, nil
	case err == io.EOF:
		err = errors.New("its connection has ended")
	}
	return 0, fmt.Errorf("node 0 is lost: %w", err)
}
