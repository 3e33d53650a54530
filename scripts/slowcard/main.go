// Slowcard says what one slow network card costs an AllReduce of many hosts, and
// makes the page docs/results/slow-card.md of it. scripts/slow-card.sh runs it:
//
//	slowcard measure -treerun FILE FOLDER   measures, then writes the page
//	slowcard page -treerun FILE FOLDER      writes the page again
//	slowcard graph HOSTS SHARE              prints the graph file of such hosts
//
// What was measured is kept in slow-card.tsv beside the page. treerun plan makes
// the other table of the page. Nothing imports this package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/treerun/treerun/scripts/internal/results"
)

// The files in the folder of results.
const (
	recordName = "slow-card.tsv"
	pageName   = "slow-card.md"
)

var errUsage = errors.New("usage: slowcard measure | page -treerun FILE FOLDER, or slowcard graph HOSTS SHARE")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "slowcard:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "graph":
		return printGraph(args[1], args[2])
	case len(args) == 0 || args[0] != "measure" && args[0] != "page":
		return errUsage
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	m := &measurement{}
	f.StringVar(&m.treerun, "treerun", "", "the executable of treerun")
	f.StringVar(&m.about, "about", "", "the version of treerun")
	f.IntVar(&m.repeat, "repeat", 5, "repetitions; the median counts")
	f.IntVar(&m.rate, "rate", 200, "Mbit/s of the cards")
	f.Int64Var(&m.bytes, "bytes", 16<<20, "size of the message")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() != 1 || m.treerun == "" || m.repeat < 1 || m.rate < 1 || m.bytes < 8 {
		return errUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	record := filepath.Join(f.Arg(0), recordName)
	if args[0] == "measure" {
		if err := m.run(ctx); err != nil {
			return err
		}
		if err := os.WriteFile(record, m.out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	planned, err := plans(ctx, m.treerun)
	if err != nil {
		return err
	}
	return results.WriteBeside(record, func(text []byte) (map[string][]byte, error) {
		r, err := results.Parse(text)
		if err != nil {
			return nil, err
		}
		p, err := page(planned, r)
		return map[string][]byte{pageName: p}, err
	})
}

func printGraph(hosts, share string) error {
	n, err := strconv.Atoi(hosts)
	if err != nil {
		return err
	}
	part, err := strconv.ParseFloat(share, 64)
	if err != nil {
		return err
	}
	g := cards(n, part)
	if err := g.Validate(); err != nil {
		return err
	}
	text, err := g.AppendJSON(nil)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}
