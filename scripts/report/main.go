// Report measures treerun, beside Open MPI, MPICH and Gloo or by itself, and makes the
// pages and charts of docs/results:
//
//	report measure NAME [flags] FOLDER   measures, then writes the page
//	report page NAME FOLDER              writes the page from the record in FOLDER
//
// A record is a file of JSON lines: facts about the machine, and rows as treerun bench
// --json prints them, with what was varied. one-host.sh measures for the page one-host;
// it and the scripts of the other names build what a measurement needs. It runs in the
// root of the repository. Nothing imports this package.
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

// report is one page with its charts.
type report struct {
	name    string
	repeat  int                        // repetitions, unless told
	measure func(*run) []site          // what is measured; nil: nothing, by this program
	charts  func(view, pictures) error // nil: none
}

// pictures are files by their names: charts, and the page.
type pictures map[string][]byte

var reports = []report{
	{"one-host", 0, nil, oneHostCharts},
	{"several-hosts", 5, (*run).severalHosts, severalHostsCharts},
	{"sparse", 3, (*run).sparse, nil},
	{"slow-card", 5, (*run).slowCard, nil},
	{"push-pulls", 5, (*run).pushPulls, nil},
}

var errUsage = errors.New("usage: report measure NAME [flags] FOLDER | report page NAME FOLDER; NAME is " +
	"one-host, several-hosts, sparse, slow-card or push-pulls")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	i := slices.IndexFunc(reports, func(r report) bool { return r.name == args[1] })
	switch {
	case i >= 0 && args[0] == "page" && len(args) == 3:
		return reports[i].page(args[2])
	case i >= 0 && args[0] == "measure" && reports[i].measure != nil:
		return reports[i].measured(ctx, args[2:])
	}
	return errUsage
}

// recordIn returns the name of the record.
func (r *report) recordIn(folder string) string { return filepath.Join(folder, r.name+".jsonl") }

// made returns the files of the page, by name.
func (r *report) made(folder string) (pictures, error) {
	rec, err := readRecord(r.recordIn(folder))
	if err != nil {
		return nil, err
	}
	return r.filesOf(rec)
}

func (r *report) filesOf(rec *record) (pictures, error) {
	v, made := view{record: rec}, pictures{}
	if r.charts != nil {
		if err := r.charts(v, made); err != nil {
			return nil, err
		}
	}
	return made, written(made, r.name, v)
}

// page writes the page and its charts.
func (r *report) page(folder string) error {
	files, err := r.made(folder)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Println(filepath.Join(folder, r.name+".md"))
	return nil
}

// measured measures, and writes the record and the page. An unfinished measurement
// leaves the earlier record as it was.
func (r *report) measured(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet(r.name, flag.ContinueOnError)
	m := &run{record: &record{}}
	f.StringVar(&m.treerun, "treerun", "", "the executable of treerun")
	f.StringVar(&m.hello, "hello", "", "that of examples/hello")
	f.StringVar(&m.peers, "peers", "", "the folder of the peers' kit, with bin/; empty: treerun alone")
	f.StringVar(&m.about, "about", "", "the version of treerun")
	f.BoolVar(&m.quick, "quick", false, "small messages, to test this program")
	f.IntVar(&m.repeat, "repeat", r.repeat, "repetitions; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	if r.name == "several-hosts" && m.hello == "" {
		return errors.New("several-hosts needs -hello FILE")
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
		m.describe(m.about, "openmpi", "mpich")
	}
	sites := r.measure(m)
	if m.quick {
		sites = quickly(sites)
	}
	if err := m.measure(ctx, sites); err != nil {
		return err
	}
	if err := m.write(r.recordIn(f.Arg(0))); err != nil {
		return err
	}
	return r.page(f.Arg(0))
}
