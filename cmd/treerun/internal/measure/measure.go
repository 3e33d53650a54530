// Package measure makes the graph of this host: Graph starts ranks that measure
// the links between them, and Rank is such a rank. The ranks are a job as any
// other; the measuring is that of collective.New. Only package cli below cmd/treerun imports it.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/selfrun"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
	"github.com/treerun/treerun/topo"
)

// Subcommand is the name under which package selfrun starts the ranks.
const Subcommand = "topo"

// Graph measures the links between n ranks on this host, whatever earlier jobs
// have measured, and keeps nothing. Where a rank fails, or a signal stops the
// job, the cause has been printed on standard error: the graph is nil, and code
// is that of the job. Call it once per process, as selfrun.Run.
func Graph(n int) (g *topo.Graph, code int, err error) {
	var said text
	code, err = selfrun.Run(&selfrun.Job{
		Subcommand: Subcommand, Size: n, Settings: map[string]string{"no-topo-cache": "1"},
		Result: &said, Screen: output.NewScreen(os.Stdout, os.Stderr),
	})
	if err != nil || code != 0 {
		return nil, code, err
	}
	if g, err = topo.ParseGraph(said.Bytes()); err != nil {
		return nil, 0, exitcode.Errorf(exitcode.Internal, "measure the links: what rank 0 says: %w", err)
	}
	return g, 0, nil
}

// text is what rank 0 says, up to the size of a graph.
type text struct{ bytes.Buffer }

func (t *text) Write(p []byte) (int, error) {
	if t.Len()+len(p) > topo.MaxGraphBytes {
		return 0, exitcode.Errorf(exitcode.Internal, "measure the links: rank 0 says more than %d bytes", topo.MaxGraphBytes)
	}
	return t.Buffer.Write(p)
}

// Rank takes part in a Graph as one rank; rank 0 writes the graph to standard
// output, as JSON. It takes no arguments.
func Rank([]string) (int, error) {
	ctx := context.Background() // treerun ends ranks that are not wanted any more
	world, err := rank.Init(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure the links: %w", err)
	}
	return 0, errors.Join(take(ctx, world, os.Stdout), world.Close())
}

// take measures as one rank of world.
func take(ctx context.Context, world *rank.World, w io.Writer) (err error) {
	comm, err := collective.New(ctx, world)
	if err != nil {
		return fmt.Errorf("measure the links: %w", err)
	}
	defer func() { err = errors.Join(err, comm.Close()) }()
	if world.Rank() == 0 {
		graph := *comm.Graph()
		graph.Name = "measured"
		data, err := graph.AppendJSON(nil)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		if err != nil {
			return fmt.Errorf("measure the links: give the graph back: %w", err)
		}
	}
	return collective.Barrier(ctx, comm) // nobody leaves before all have what they need
}
