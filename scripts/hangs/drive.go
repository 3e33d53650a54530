//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// drive runs a trial of each kind in each place, and healthy jobs, and adds a line of JSON for each to a file.
func drive(args []string) (err error) {
	set := flag.NewFlagSet("hangs", flag.ContinueOnError)
	treerun := set.String("treerun", "treerun", "the command")
	places := set.String("places", "host tcp hosts", "where: see place.go")
	names := set.String("kinds", "", "kinds of hangs; empty: all")
	healthy := set.Duration("healthy", 0, "the time of a job that is slow and does not hang, in place of hangs")
	busy := set.Int("busy", 0, "number of busy processes beside it")
	spins := set.Bool("spin", false, "be a busy process")
	crowd := set.Int("many", 0, "number of ranks of one host whose status is measured, in place of hangs")
	page := set.Bool("page", false, "print the page of a record")
	name := set.String("record", "hangs.jsonl", "the file of the record")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case *spins:
		return spin("")
	case *page:
		return printPage(*name)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(*name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	record := json.NewEncoder(file)
	if *crowd > 0 {
		return many(*treerun, self, *crowd, record)
	}
	wrong := 0
	for _, where := range strings.Fields(*places) {
		var p place
		if err := p.open(where, *treerun); err != nil {
			return err
		}
		if *healthy > 0 {
			wrong += alarms(&p, self, *healthy, *busy, record)
		}
		for _, k := range kinds {
			if *healthy > 0 || k.only != "" && !slices.Contains(strings.Fields(k.only), where) ||
				*names != "" && !slices.Contains(strings.Fields(*names), k.name) {
				continue
			}
			r, err := run(k, &p, self)
			if err != nil {
				return errors.Join(fmt.Errorf("%s, %s: %w", k.name, where, err), p.close())
			}
			if err := record.Encode(r); err != nil {
				return errors.Join(err, p.close())
			}
			fmt.Printf("%-8s %-6s %-9s %4.1f s  %s\n", k.name, where, r.State, r.Watch, r.Verdict)
			if r.Wrong != "" {
				wrong++
				fmt.Printf("    WRONG: %s\n", r.Wrong)
			}
		}
		if err := p.close(); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d wrong", wrong)
	}
	return nil
}

// calm is the result of a job that does not hang.
type calm struct {
	Place   string   `json:"place"`
	Seconds float64  `json:"healthy_s"`
	Busy    int      `json:"busy"`
	Lines   []string `json:"lines"` // that treerun has printed
	Load    float64  `json:"load"`  // at the end
}

// alarms runs a slow job beside busy processes, and returns the number of treerun's lines.
func alarms(p *place, self string, long time.Duration, busy int, record *json.Encoder) int {
	for range busy {
		c := exec.Command(self, "-spin")
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		}()
	}
	job := p.job("-x", "HANGS_KIND=uneven", "-x", "HANGS_TIME="+long.String(), self)
	begin := time.Now()
	out, err := job.CombinedOutput()
	r := calm{Place: p.name, Busy: busy, Seconds: time.Since(begin).Seconds(), Load: load(), Lines: []string{}}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "treerun: ") && !strings.HasSuffix(line, "cores\n") ||
			err != nil && !strings.HasPrefix(line, "job ") {
			r.Lines = append(r.Lines, strings.TrimSpace(line))
		}
	}
	if err := errors.Join(err, record.Encode(r)); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("healthy  %-6s %.0f s beside %d busy processes: %q\n", p.name, r.Seconds, busy, r.Lines)
	return len(r.Lines)
}
