//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/nodes"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// nodeOptions are the flags for jobs in which every host has a treerun of its
// own, started with the same command.
type nodeOptions struct {
	count   int // 0: not given
	node    int
	seed    string
	keyFile string
	jobID   string

	cfg      *nodes.Config // of node 0, when the job has several
	gathered []*nodes.Node // the hosts of the job, once all are connected
	again    chan launch.Again
}

func (n *nodeOptions) define(f *pflag.FlagSet) {
	f.Var(cmdline.Setter("N", func(text string) (err error) {
		n.count, err = nodes.ParseCount(text, 1)
		return err
	}), "nnodes", "this command is started once on each of `N` hosts, without ssh")
	f.Var(cmdline.IntRange(&n.node, 0, job.MaxRanks-1), "node-rank",
		"`NUMBER` of this host among them, from 0 (default: from the variables of Slurm, torchrun or Kubernetes)")
	f.Var(cmdline.Text(&n.seed, nodes.CheckSeed), "seed", "where host 0 listens for the others: `HOST:PORT`")
	f.StringVar(&n.keyFile, "key-file", "",
		"`FILE` with the key that these hosts share, mode 0600: 64 hexadecimal digits (default: $"+job.EnvKeyFile+")")
	f.Var(cmdline.Text(&n.jobID, func(id string) (string, error) { return id, job.CheckID(id) }), "job-id",
		"`ID` of the job: others with the same key do not disturb it")
}

// nodes returns the settings of this treerun as a node of a job; nil
// if it is alone. idle reports whether another treerun on this host runs all of its ranks.
func (o *options) nodes(get func(string) string) (c *nodes.Config, idle bool, err error) {
	n := &o.node
	explicit := o.anyChanged("nnodes", "node-rank", "job-id") || n.seed != ""
	if o.anyChanged("host", "hostfile") {
		if explicit {
			return nil, false, cmdline.Usagef("--nnodes, --node-rank, --seed and --job-id are for hosts that start treerun " +
				"themselves, -H and --hostfile for " +
				"those where this treerun does it")
		}
		return nil, false, nil
	}
	if n.count == 1 {
		return nil, false, nil // independent of the environment
	}
	key := cmp.Or(n.keyFile, get(job.EnvKeyFile))
	found, err := nodes.FromEnvironment(get)
	if err != nil && (explicit || key != "") {
		return nil, false, cmdline.Usagef("%w", err)
	}
	if c = found; c == nil || err != nil {
		c = new(nodes.Config)
	}
	wanted := explicit || c.Nodes > 1 && (c.Conclusive || key != "")
	switch {
	case !wanted && n.keyFile != "" && c.Nodes != 1: // 1: the environment names this host alone
		return nil, false, cmdline.Usagef("--key-file is for jobs with --nnodes")
	case !wanted:
		if c.Nodes > 1 {
			output.NewScreen(os.Stdout, os.Stderr).Err.Printf("treerun: this job has this host alone, and %s name %d hosts: "+
				"--key-file makes one job of all, --nnodes 1 is without this line", c.Scheduler, c.Nodes)
		}
		return nil, false, nil
	case key == "" && !explicit:
		return nil, false, cmdline.Usagef("this is node %d of %d according to %s: give --key-file for a job of all, or "+
			"--nnodes 1 for one of this host alone", c.Node, c.Nodes, c.Scheduler)
	case key == "":
		return nil, false, cmdline.Usagef("the hosts have no key: make one with `openssl rand -hex 32 > FILE; chmod 600 " +
			"FILE`, give it to all of them, and " +
			"use --key-file FILE")
	}
	err = o.fillNode(c, key)
	return c, c.Idle && err == nil, err
}

// fillNode adds the values of flags to those of the environment; flags have precedence.
func (o *options) fillNode(c *nodes.Config, key string) error {
	n := &o.node
	remote, err := o.place.Remote()
	if err != nil {
		return err
	}
	c.Size, c.PerNode = o.job.Size, o.place.PerHost
	// Node 0 plans for all, and its flags hold for all ranks, so a node with other ones gets an error.
	c.Args = slices.Concat(o.commonFlags(), o.planning.Given(), o.job.Args)
	c.Version, c.Timeout = wire.Version(), remote.Timeout
	c.Nodes, c.Seed, c.JobID = cmp.Or(n.count, c.Nodes), cmp.Or(n.seed, c.Seed), cmp.Or(n.jobID, c.JobID)
	if o.flags.Changed("node-rank") {
		c.Node = n.node
	} else if c.Scheduler == "" {
		return cmdline.Usagef("--nnodes needs --node-rank, the number of this host among %d", c.Nodes)
	}
	switch {
	case c.Nodes == 0:
		return cmdline.Usagef("--nnodes: want the number of hosts")
	case c.Seed == "":
		return cmdline.Usagef("--seed: want HOST:PORT, at which host 0 listens")
	case o.anyChanged("launch-agent", "ssh-args", "push"):
		return cmdline.Usagef("--launch-agent, --ssh-args and --push cannot be combined with --nnodes: nothing is started " +
			"on other hosts")
	}
	err = c.Check()
	if err == nil {
		c.Key, err = job.ReadKeyFile(key)
	}
	if err != nil {
		return cmdline.Usagef("%w", err)
	}
	if c.Default == 0 {
		if c.Default, err = o.place.DefaultRanks(0); err != nil {
			return err
		}
	}
	if c.Host, err = os.Hostname(); err != nil {
		return fmt.Errorf("find the name of this host: %w", err)
	}
	return nil
}

// commonFlags returns the given flags of which the values of node 0 hold for the ranks of all nodes, besides those that
// have a place of their own in a NodeHello.
func (o *options) commonFlags() (given []string) {
	for _, name := range []string{"bind-to", "cpus-per-rank", "debug", "encrypt", "gpu-bind", "gpus", "map-by",
		"mem-per-rank", "merge-stderr", "on-failure", "ranks-per-gpu", "show-ranks", "stdin"} {
		if f := o.flags.Lookup(name); f.Changed {
			given = append(given, "--"+name+"="+f.Value.String())
		}
	}
	for _, e := range o.exports.variables {
		name, value, found := strings.Cut(e, "=")
		if found { // a value may be a secret, and the flags are shown where nodes differ
			sum := sha256.Sum256([]byte(value))
			name += fmt.Sprintf("=(sum %x)", sum[:4])
		}
		given = append(given, "-x "+name)
	}
	return given
}

// anyChanged reports whether one of these flags was given, other than as false.
func (o *options) anyChanged(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		f := o.flags.Lookup(name)
		return f.Changed && (f.Value.Type() != "bool" || f.Value.String() == "true")
	})
}

// hosts returns the hosts of the ranks, and the number of ranks.
func (o *options) hosts() ([]launch.JobHost, int, error) {
	if o.flags.Changed("rankfile") && (o.node.cfg != nil || o.node.count == 1) {
		return nil, 0, cmdline.Usagef("--rankfile is for hosts of -H, --hostfile or an allocation, not for --nnodes")
	}
	if o.node.cfg != nil {
		return o.placeNodes()
	}
	if o.node.count == 1 { // independent of an allocation
		n, err := o.place.DefaultRanks(o.job.Size)
		return nil, n, err
	}
	return o.place.Hosts(o.job.Size, 0)
}

// placeNodes waits, as node 0, for the other nodes, and returns them with their ranks, and the number of ranks.
func (o *options) placeNodes() ([]launch.JobHost, int, error) {
	if p := o.job.Lives.Policy; p == membership.Respawn || p == membership.Shrink {
		again := make(chan launch.Again)
		o.node.again, o.node.cfg.Again = again, func(n *nodes.Node) {
			again <- launch.Again{Node: n.Node, Name: n.Host, Accept: n.Accept, Refuse: n.Conn.Close}
		}
	}
	gathered, err := nodes.Gather(context.Background(), o.node.cfg)
	if err != nil {
		return nil, 0, err
	}
	o.node.gathered = gathered
	var hosts []launch.JobHost
	size := 0
	for i, n := range gathered {
		hosts = append(hosts, launch.JobHost{Name: n.Host, Target: n.Host, Local: i == 0, Ranks: n.Ranks})
		size += len(n.Ranks)
	}
	return hosts, size, nil
}

// connect makes r use the connections to the nodes to reach other hosts.
func (o *options) connect(r *launch.Remote) {
	c := o.node.cfg
	if c == nil {
		return
	}
	r.FanOut, r.JobID, r.Again = c.Nodes, c.JobID, o.node.again
	r.Master, _, _ = net.SplitHostPort(c.Seed) // Check has seen it
	r.Open = func(index int) io.ReadWriteCloser { return o.node.gathered[index].Conn }
}

// runNode runs a job as a node other than node 0.
func runNode(o *options, prog *program, broken error, c *nodes.Config, screen *output.Screen) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := launch.Signals()
	if broken == nil && prog.Folder != "" {
		broken = prog.build(signals, screen.Err, o.job.Debug != nil)
		defer prog.remove()
	}
	dir, err := workingDir(o.job.Dir)
	if broken == nil {
		broken = err
	}
	watch, err := o.watcher(screen.Err.Printf)
	if broken == nil {
		broken = err
	}
	if broken != nil {
		c.Broken = broken.Error()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stops := make(chan os.Signal, 8)
	onStop(signals, func(sig syscall.Signal) {
		cancel(cmdline.Errorf(cmdline.SignalCode(sig), "stopped by %v while waiting for the other nodes", sig))
		stops <- sig
	}, func(int) {})
	conn, err := nodes.Join(ctx, c)
	if broken != nil {
		return 0, broken
	}
	if err != nil {
		return 0, err // exit code 125, unless a signal has set another one
	}
	c.Trace("node %d of %d: all are connected", c.Node, c.Nodes)
	n := &agent.Node{Program: o.job.Program, Path: prog.Path, Dir: dir, Signals: stops, Watch: watch}
	return n.Run(conn)
}

// runNodes begins, or runs, a job for which every host starts a treerun; done reports whether it is
// over, which it is if this is not node 0. broken is the reason why there is no program here: the
// others get it, and do not wait.
func runNodes(o *options, prog *program, broken error, begin time.Time) (code int, done bool, err error) {
	c, idle, err := o.nodes(os.Getenv)
	if c != nil && (idle || c.Node != 0) {
		o.job.Result = "" // node 0 writes the file
	}
	switch {
	case err != nil || idle || c == nil:
		return 0, err != nil || idle, err
	case o.dryRun:
		return 0, true, cmdline.Usagef("--dry-run: the jobs of the other hosts are not known here")
	}
	screen := output.NewScreen(os.Stdout, os.Stderr)
	c.Warn = func(format string, args ...any) { screen.Err.Printf("treerun: "+format, args...) }
	c.Trace, c.Progress = o.tracer(begin, screen.Err.Printf), screen.Err.Progress
	if c.Node == 0 {
		o.node.cfg = c
		if broken != nil {
			c.Broken = broken.Error()
			_, err := nodes.Gather(context.Background(), c)
			c.Trace("%v", err)
		}
		return 0, false, nil
	}
	code, err = runNode(o, prog, broken, c, screen)
	return code, true, err
}

// tracer returns the function that prints events with -v.
func (o *options) tracer(begin time.Time, printf func(format string, args ...any)) func(format string, args ...any) {
	if !o.verbose {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) {
		ms := float64(time.Since(begin).Microseconds()) / 1000
		printf("treerun: %7.1f ms  %s", ms, fmt.Sprintf(format, args...))
	}
}
