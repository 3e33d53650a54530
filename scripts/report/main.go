//go:build linux

// Report measures treerun, alone or in comparison with Open MPI, MPICH and Gloo, for the pages of docs/lab:
//
//	report NAME [flags] FOLDER
//
// The record of a measurement is a file of JSON lines in FOLDER: facts about the machine, and rows as treerun bench
// --json prints them, with the varied parameters. scripts/page.sh makes a page from it, by the tests of this package.
// The scripts of these names build the programs for a measurement; one-host.sh measures without this program. Report
// runs in the root of the repository. No other package imports it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// report describes the measurement for a page.
type report struct {
	name    string
	repeat  int // default number of repetitions
	measure func(*run) []site
}

var reports = []report{
	{"several-hosts", 5, (*run).severalHosts},
	{"sparse", 3, (*run).sparse},
	{"slow-card", 5, (*run).slowCard},
	{"push-pulls", 5, (*run).pushPulls},
	{"plans-hosts", 5, (*run).plansHosts},
	{"calls", 5, (*run).calls},
}

var errUsage = errors.New("usage: report NAME [flags] FOLDER; NAME is several-hosts, sparse, slow-card," +
	" push-pulls, plans-hosts or calls")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// command measures, and writes the record. An unfinished measurement leaves the earlier record unchanged.
func command(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errUsage
	}
	i := slices.IndexFunc(reports, func(r report) bool { return r.name == args[0] })
	if i < 0 {
		return errUsage
	}
	r := &reports[i]
	f := flag.NewFlagSet(r.name, flag.ContinueOnError)
	m := &run{record: &record{}}
	f.StringVar(&m.treerun, "treerun", "", "the executable of treerun")
	f.StringVar(&m.before, "before", "", "that of an earlier version, for plans-hosts")
	f.StringVar(&m.program, "program", "", "that of examples/hello, for several-hosts, or of scripts/measure, for calls")
	f.StringVar(&m.sets, "sets", "", "sets of ranks, for calls: HOSTSxRANKS or HOSTSxRANKS+BUSY each")
	f.StringVar(&m.args, "args", "", "arguments of scripts/measure calls")
	f.StringVar(&m.peers, "peers", "", "the folder of the peers' kit, with bin/; empty: treerun alone")
	f.StringVar(&m.about, "about", "", "the version of treerun")
	f.BoolVar(&m.quick, "quick", false, "small messages, to test this program")
	f.IntVar(&m.repeat, "repeat", r.repeat, "repetitions; the median counts")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if (r.name == "several-hosts" || r.name == "calls") && m.program == "" {
		return fmt.Errorf("%s needs -program FILE", r.name)
	}
	if r.name == "plans-hosts" && m.before == "" {
		return errors.New("plans-hosts needs -before FILE")
	}
	if f.NArg() != 1 || m.treerun == "" || m.repeat < 1 {
		return errUsage
	}
	if m.work, err = os.MkdirTemp("", r.name+"-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.work)) }()
	if m.peers == "" {
		m.describe(m.about)
	} else {
		m.describe(m.about, [2]string{"openmpi", "Open MPI"}, [2]string{"mpich", "MPICH"})
	}
	sites := r.measure(m)
	if len(sites) == 0 || slices.ContainsFunc(sites, func(s site) bool { return s.np() == 0 }) {
		return errUsage
	}
	if m.quick {
		sites = shorten(sites)
	}
	if err := m.measure(ctx, sites); err != nil {
		return err
	}
	return m.write(filepath.Join(f.Arg(0), r.name+".jsonl"))
}
