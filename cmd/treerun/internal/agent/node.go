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

// signals returns the signals to pass on; nil, which never gives one, for an
// agent that a launcher has started.
func (n *Node) signals() <-chan os.Signal {
	if n == nil {
		return nil
	}
	return n.Signals
}

// over is how the reader learns that the job is over.
type over struct{ result *wire.Result }

func (o *over) Error() string { return "the job is over" }

// end returns what came of the job, as far as the launcher has told. err is why
// no more is heard of it.
func (n *Node) end(err error) (int, error) {
	o := new(over)
	switch {
	case errors.As(err, &o) && o.result.Text != "":
		return 0, cmdline.Errorf(o.result.Code, "node 0: %s", o.result.Text)
	case errors.As(err, &o):
		return o.result.Code, nil
	case err == io.EOF:
		err = errors.New("its connection has ended")
	}
	return 0, fmt.Errorf("node 0 is lost: %w", err)
}
