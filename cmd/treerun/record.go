//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/metrics"
	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/cmd/treerun/internal/report"
	"github.com/treerun/treerun/internal/safefile"
)

// minEvents is the number of events of a recording that only has totals.
const minEvents = 1

// record has the ranks record what the flags show.
func (o *options) record(j *launch.Job) error {
	var outputs []func(*recording.Job) error
	if o.flags.Changed("trace") {
		if err := recording.CheckTimeline(o.traceFile); err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		outputs = append(outputs, func(r *recording.Job) error {
			if err := recording.StoreTimeline(o.traceFile, r); err != nil {
				return fmt.Errorf("--trace: %w", err)
			}
			j.Trace("wrote %s", o.traceFile)
			return nil
		})
	}
	if o.flags.Changed("report") {
		write, err := o.report(j)
		if err != nil {
			return err
		}
		outputs = append(outputs, write)
	}
	var err error
	if j.Watch, err = o.watcher(j.Screen.Err.Printf); err != nil {
		return err
	}
	if j.Watch != nil {
		j.Events = minEvents // the totals are enough
	}
	if len(outputs) == 0 {
		return nil
	}
	j.Events = recording.Places(j.Size)
	j.Recorded = func(r *recording.Job) (err error) {
		for _, write := range outputs {
			err = errors.Join(err, write(r))
		}
		return err
	}
	return nil
}

// report returns the function that writes the page of --report.
func (o *options) report(j *launch.Job) (func(*recording.Job) error, error) {
	file, err := filepath.Abs(o.reportFile)
	if err == nil {
		err = safefile.CanSave(file)
	}
	if err != nil {
		return nil, fmt.Errorf("--report: %w", err)
	}
	return func(r *recording.Job) error {
		page, err := report.HTML(r, cmdline.BuildVersion())
		if err == nil {
			err = safefile.Save(file, page)
		}
		if err != nil {
			return fmt.Errorf("--report: %w", err)
		}
		j.Trace("wrote %s", file)
		return nil
	}, nil
}

// watcher returns the function that serves metrics of a job, nil where none are wanted.
func (o *options) watcher(printf func(format string, args ...any)) (func(func() (*recording.Live, error)), error) {
	if !o.flags.Changed("metrics") {
		return nil, nil
	}
	l, notice, err := metrics.Listen(o.metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	if notice != "" {
		printf("treerun: %s", notice)
	}
	return func(live func() (*recording.Live, error)) { go metrics.Serve(l, live) }, nil
}
