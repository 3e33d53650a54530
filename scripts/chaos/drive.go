//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// flags are those of the driver.
type flags struct {
	worker   string // this program
	part     string
	trials   int
	seed     uint64
	policies []string
	sizes    []int
	faults   []string
	spares   int
	keep     string
	place    place
}

// drive runs trials, writes a line of JSON for each to a file, and prints what they did wrong.
func drive(args []string) (err error) {
	var f flags
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	treerun := set.String("treerun", "treerun", "the command")
	set.StringVar(&f.part, "part", "", "name of this part of the record")
	set.IntVar(&f.trials, "trials", 100, "number of jobs")
	set.Uint64Var(&f.seed, "seed", 1, "of the random choices; that of each further job is one higher")
	policies := set.String("policies", "shrink restart respawn", "of --on-failure")
	sizes := set.String("sizes", "2 3 4 8", "numbers of ranks")
	faults := set.String("faults", "kill stop exit panic segv", "names in the table of faults")
	where := set.String("place", "host", "host, tcp, hosts or nodes: see place.go")
	set.IntVar(&f.spares, "spares", 0, "hosts without ranks")
	set.StringVar(&f.keep, "keep", "", "folder for the output of jobs that did wrong")
	name := set.String("record", "", "file to add the record to")
	epochs := set.Int("endure", 0, "epochs of one job, in place of trials")
	if err := set.Parse(args); err != nil {
		return err
	}
	f.policies, f.faults = strings.Fields(*policies), strings.Fields(*faults)
	for _, text := range strings.Fields(*sizes) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		f.sizes = append(f.sizes, n)
	}
	if f.worker, err = os.Executable(); err != nil {
		return err
	}
	out := io.Discard
	if *name != "" {
		file, err := os.OpenFile(*name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	if err := f.place.open(*where, *treerun); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.place.close()) }()
	if *epochs > 0 {
		return endure(&f, *epochs, json.NewEncoder(out))
	}
	return f.all(json.NewEncoder(out))
}

// all runs the trials.
func (f *flags) all(record *json.Encoder) error {
	wrong := 0
	for i := range f.trials {
		t, err := newTrial(f, f.seed+uint64(i))
		if err == nil {
			t.run()
			err = errors.Join(record.Encode(t.row()), t.end())
		}
		if err != nil {
			return err
		}
		if t.wrong == "" {
			continue
		}
		wrong++
		fmt.Printf("%s, seed %d: %s: %s\n", f.part, t.seed, t, t.wrong)
		if f.keep != "" {
			name := filepath.Join(f.keep, fmt.Sprintf("%s-%d.txt", strings.ReplaceAll(f.part, " ", "-"), t.seed))
			if err := os.WriteFile(name, []byte(t.output()), 0o666); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%s: %d jobs, %d did wrong\n", f.part, f.trials, wrong)
	if wrong > 0 {
		return fmt.Errorf("%d of %d jobs did wrong", wrong, f.trials)
	}
	return nil
}
