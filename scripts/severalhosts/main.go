// Severalhosts measures treerun beside Open MPI, MPICH and Gloo on several hosts,
// which are network namespaces with shaped links, and makes the page
// docs/results/several-hosts.md of it. scripts/several-hosts.sh runs it:
//
//	severalhosts measure [-quick] [-repeat N] [-only NETWORK,...] FOLDER   measures, then writes the page
//	severalhosts page RECORD                            writes the page again
//
// Nothing imports this package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/treerun/treerun/scripts/internal/results"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "severalhosts:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "measure":
		return measureAll(args[1:])
	case "page":
		if len(args) == 2 {
			return writePage(args[1])
		}
	case receiveCommand, sendCommand: // this program inside a host
		return flowEnd(args)
	}
	return errors.New("usage: severalhosts measure [-quick] FOLDER | severalhosts page RECORD")
}

func measureAll(args []string) error {
	f := flag.NewFlagSet("measure", flag.ContinueOnError)
	m := &measurement{}
	f.BoolVar(&m.quick, "quick", false, "few sizes, to test this program")
	f.IntVar(&m.repeat, "repeat", 5, "repetitions; the median counts")
	f.Float64Var(&m.cap, "cap", 0.1, "seconds of timed iterations of a row of small messages")
	only := f.String("only", "", "NETWORK,...: measure no others")
	f.StringVar(&m.treerun, "treerun", "", "the executable of treerun")
	f.StringVar(&m.hello, "hello", "", "that of examples/hello")
	f.StringVar(&m.train, "train", "", "that of examples/train")
	f.StringVar(&m.peers, "peers", "", "the folder of the peers' kit, with bin/; empty: treerun alone")
	f.StringVar(&m.about, "about", "", "the version of treerun")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || m.treerun == "" || m.hello == "" || m.train == "" || m.repeat < 1 {
		return errors.New("usage: severalhosts measure -treerun FILE -hello FILE -train FILE [-peers FOLDER] FOLDER")
	}
	m.only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := m.run(ctx); err != nil {
		return err
	}
	record := filepath.Join(f.Arg(0), "several-hosts.tsv")
	// An unfinished measurement leaves the earlier record as it was.
	if err := os.WriteFile(record, m.text(), 0o644); err != nil {
		return err
	}
	return writePage(record)
}

func writePage(file string) error {
	err := results.WriteBeside(file, func(text []byte) (map[string][]byte, error) {
		r, err := parse(text)
		if err != nil {
			return nil, err
		}
		return page(r)
	})
	if err == nil {
		fmt.Println(filepath.Join(filepath.Dir(file), pageName))
	}
	return err
}
