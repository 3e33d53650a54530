// Sparse measures sparse AllReduce beside treerun's own dense one, Open MPI and
// MPICH, on several hosts, which are network namespaces with shaped links, and on
// one, and makes the page docs/results/sparse.md of it. scripts/sparse.sh runs it:
//
//	sparse measure [-quick] [-repeat N] [-only CASE,...] FOLDER   measures, then writes the page
//	sparse page RECORD                                            writes the page again
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

// The files in the folder of results.
const (
	recordName = "sparse.jsonl"
	pageName   = "sparse.md"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sparse:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "measure":
		return measureAll(args[1:])
	case len(args) == 2 && args[0] == "page":
		return writePage(args[1])
	}
	return errors.New("usage: sparse measure [-quick] [-only CASE,...] FOLDER | sparse page RECORD")
}

func measureAll(args []string) error {
	f := flag.NewFlagSet("measure", flag.ContinueOnError)
	m := &measurement{}
	f.BoolVar(&m.quick, "quick", false, "small tensors, to test this program")
	f.IntVar(&m.repeat, "repeat", 3, "repetitions; the median counts")
	f.IntVar(&m.iterations, "n", 1, "timed iterations of a row on several hosts, in each repetition")
	only := f.String("only", "", "CASE,...: measure these, and keep the rest of an earlier record: "+strings.Join(names(cases()), ", "))
	f.StringVar(&m.treerun, "treerun", "", "the executable of treerun")
	f.StringVar(&m.peers, "peers", "", "the folder of the peers' kit, with bin/; empty: treerun alone")
	f.StringVar(&m.about, "about", "", "the version of treerun")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || m.treerun == "" || m.iterations < 1 || m.repeat < 1 {
		return errors.New("usage: sparse measure -treerun FILE [-peers FOLDER] FOLDER")
	}
	file := filepath.Join(f.Arg(0), recordName)
	list := cases()
	if *only != "" {
		var err error
		if list, err = chosen(list, strings.Split(*only, ",")); err != nil {
			return err
		}
		if text, err := os.ReadFile(file); err == nil {
			if m.record, err = parse(text); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := m.run(ctx, list); err != nil {
		return err
	}
	text, err := m.record.text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	return writePage(file)
}

func writePage(file string) error {
	err := results.WriteBeside(file, func(text []byte) (map[string][]byte, error) {
		r, err := parse(text)
		return map[string][]byte{pageName: []byte(page(r))}, err
	})
	if err == nil {
		fmt.Println(filepath.Join(filepath.Dir(file), pageName))
	}
	return err
}
