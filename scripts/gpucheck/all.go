package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cuda"
)

// results is what gpucheck finds: the JSON file.
type results struct {
	Date   string   `json:"date"`
	Fake   bool     `json:"fake"` // libraries that stand in for the driver; its figures say nothing
	Driver string   `json:"driver"`
	GPUs   []string `json:"gpus"`
	Steps  []step   `json:"steps"`

	CopyGBs float64      `json:"copy_gbytes_per_second"` // read plus written
	Kernels []kernelRate `json:"kernels"`

	Processes *times  `json:"processes_on_one_gpu"`
	Latency   *times  `json:"latency_of_2_processes"`
	KillMs    float64 `json:"killed_rank_heard_of_ms"`

	Bench []json.RawMessage `json:"bench"`
}

// step is one thing that was tried.
type step struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"` // what was found, or the error
}

// checker runs the steps.
type checker struct {
	results
	ctx       context.Context // ends when the time of the step is over
	treerun   string
	train     string // "": not run
	self      string
	file      string // for the results; "": none
	dev       *cuda.Device
	gpus      int
	large     int64 // bytes
	sample    int
	processes []int

	stepMost time.Duration // of one step
	grace    time.Duration // how much longer a step may take to come to its end
	until    time.Time     // the end of all of them
}

func runAll(args []string) error {
	k := &checker{grace: 15 * time.Second}
	flags := pflag.NewFlagSet("gpucheck all", pflag.ContinueOnError)
	flags.StringVar(&k.file, "json", "", "the file for what was found, written after every step")
	flags.StringVar(&k.treerun, "treerun", "treerun", "the command")
	flags.StringVar(&k.train, "train", "", "examples/train, if that is to run")
	flags.IntVar(&k.sample, "sample", 400, "device calls against the oracle per job at most, 0 for all")
	flags.IntSliceVar(&k.processes, "processes", []int{2, 4, 8}, "ranks of the jobs on one GPU")
	flags.DurationVar(&k.stepMost, "step-time", 100*time.Second, "for one step")
	most := flags.Duration("time", 9*time.Minute, "for all steps; what is left then is not run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	k.until = time.Now().Add(*most)
	if err := k.begin(); err != nil {
		return err
	}
	if err := k.steps(); err != nil {
		return err
	}
	for _, s := range k.Steps {
		if !s.OK {
			return fmt.Errorf("%s: %s", s.Name, s.Text)
		}
	}
	return nil
}

// steps does everything, what tells the most first.
func (k *checker) steps() error {
	type named struct {
		name string
		do   func(*checker) (string, error)
	}
	all := []named{
		{"treerun check", (*checker).machine},
		{"kernels against float64", (*checker).kernels},
		{"rates of kernels", (*checker).rates},
	}
	for _, np := range k.processes {
		all = append(all, named{fmt.Sprintf("device calls of %d ranks on one GPU against the oracle, memory read by IPC", np),
			func(k *checker) (string, error) { return k.matrix(np, true) }})
	}
	if k.gpus > 1 {
		all = append(all, named{fmt.Sprintf("device calls of %d ranks, a GPU each", k.gpus),
			func(k *checker) (string, error) { return k.matrix(k.gpus, false) }})
	}
	all = append(all, []named{
		{"sparse AllReduces of 2 ranks on one GPU against the oracle", (*checker).sparse},
		{"a rank is killed", (*checker).kill},
		{"one rank makes another call", (*checker).odd},
		{"AllReduce of 4 processes on one GPU", (*checker).procs},
		{"AllReduce of 8 bytes, 2 processes", (*checker).latency},
		{"bench", (*checker).bench},
		{"examples/train", (*checker).training},
		{"compute-sanitizer", (*checker).sanitizer},
	}...)
	for _, s := range all {
		k.step(s.name, s.do)
		if k.file == "" {
			continue
		}
		if err := k.write(k.file); err != nil {
			return err
		}
	}
	return nil
}

// begin finds the GPUs.
func (k *checker) begin() (err error) {
	if k.self, err = os.Executable(); err != nil {
		return err
	}
	all, err := cuda.Devices()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("this process sees no GPU")
	}
	k.dev, k.gpus = all[0], len(all)
	k.Date = time.Now().UTC().Format("2006-01-02")
	k.Fake = os.Getenv("TREERUN_FAKE_GPU") != ""
	if k.Driver, err = driver(); err != nil {
		return err
	}
	for _, d := range all {
		k.GPUs = append(k.GPUs, fmt.Sprintf("%s, %.0f GiB, %s", d.Name(), float64(d.TotalMemory())/(1<<30), d.PCI()))
	}
	k.large = min(256<<20, d2(k.dev.TotalMemory()/64))
	return nil
}

// d2 is the largest power of two up to n.
func d2(n int64) int64 {
	p := int64(1)
	for p*2 <= n {
		p *= 2
	}
	return p
}

// driver names the driver and the CUDA that it knows.
func driver() (string, error) {
	v, err := cuda.DriverVersion()
	text, _ := os.ReadFile("/proc/driver/nvidia/version") // not there in every container
	if m := regexp.MustCompile(`Kernel Module\s+(?:for \S+\s+)?([0-9.]+)`).FindSubmatch(text); m != nil {
		return fmt.Sprintf("%s, CUDA %s", m[1], v), err
	}
	return "CUDA " + v, err
}

// step does one thing, in its time, and notes how it went. What it finds it writes
// to a copy: that of a step which hangs is not looked at any more.
func (k *checker) step(name string, do func(*checker) (string, error)) {
	began := time.Now()
	most := min(k.stepMost, time.Until(k.until))
	mine := *k
	text, err := "", errors.New("not run: the time for all steps is over (--time)")
	if most > time.Second {
		var cancel context.CancelFunc
		mine.ctx, cancel = context.WithTimeout(context.Background(), most)
		defer cancel()
		ended := make(chan struct{})
		var found string
		var failed error
		go func() {
			defer close(ended)
			found, failed = do(&mine)
		}()
		select {
		case <-ended:
			text, err = found, failed
			k.results = mine.results
		case <-time.After(most + k.grace):
			err = fmt.Errorf("it hangs: no end after %.0f s", time.Since(began).Seconds())
		}
	}
	s := step{Name: name, OK: err == nil, Seconds: time.Since(began).Seconds(), Text: text}
	verdict := "ok"
	if err != nil {
		s.Text, verdict = err.Error(), "FAILED"
	}
	k.Steps = append(k.Steps, s)
	fmt.Printf("%-6s %6.1f s  %s: %s\n", verdict, s.Seconds, name, s.Text)
}

// machine lets treerun check say what it thinks of this machine: that is not wrong,
// whatever it is.
func (k *checker) machine() (string, error) {
	c := k.command(k.treerun, "check")
	out, err := c.CombinedOutput()
	if err != nil && (c.ProcessState == nil || c.ProcessState.ExitCode() != 1) {
		return "", fmt.Errorf("treerun check: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// command is a command that ends with the step.
func (k *checker) command(name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(k.ctx, name, args...)
	c.WaitDelay = k.grace / 3 // for whoever else has its output
	return c
}

func (k *checker) kernels() (string, error) {
	n, err := kernelsAreRight(k.ctx, k.dev)
	return fmt.Sprintf("%d elements", n), err
}

func (k *checker) rates() (string, error) {
	var err error
	if k.CopyGBs, k.Kernels, err = kernelRates(k.ctx, k.dev, k.large); err != nil {
		return "", err
	}
	least := k.Kernels[0]
	for _, r := range k.Kernels {
		if r.Share < least.Share {
			least = r
		}
	}
	return fmt.Sprintf("copy %.0f GB/s; the slowest, %s, %.2f of it", k.CopyGBs, least.Kernel, least.Share), nil
}

// job runs ranks of gpucheck through treerun and returns what they printed.
func (k *checker) job(code int, flags []string, mode ...string) (stdout, stderr string, err error) {
	return k.ranks(code, flags, append([]string{k.self, "rank"}, mode...)...)
}

// ranks runs ranks of a program. treerun stops them a little before the step is over,
// so that it can say who waited for whom.
func (k *checker) ranks(code int, flags []string, program ...string) (stdout, stderr string, err error) {
	end, _ := k.ctx.Deadline()
	most := max(time.Second, time.Until(end)-5*time.Second).Round(time.Millisecond)
	args := append(append(slices.Clone(flags), "--timeout", most.String(), "--shutdown-timeout", "1"), program...)
	c := k.command(k.treerun, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	if c.ProcessState != nil && c.ProcessState.ExitCode() == code {
		err = nil
	} else {
		err = fmt.Errorf("treerun %s: %v, want exit code %d: %s %s", strings.Join(args, " "), err, code, errs.String(),
			out.String())
	}
	return out.String(), errs.String(), err
}

// onOne are the flags for np ranks on the first GPU.
func onOne(np int) []string {
	return []string{"-np", strconv.Itoa(np), "--gpus", "0", "--ranks-per-gpu", strconv.Itoa(np)}
}

func (k *checker) matrix(np int, one bool) (string, error) {
	flags := []string{"-np", strconv.Itoa(np)}
	if one {
		flags = onOne(np)
	}
	out, errs, err := k.job(0, append(flags, "-v"), "matrix", "--sample", strconv.Itoa(k.sample), "--seed",
		strconv.Itoa(np), "--most", (k.stepMost / 2).String())
	if err != nil {
		return "", err
	}
	if line, found := lineWith(errs, "does not read that of"); found {
		if one {
			return "", errors.New(line)
		}
		return strings.TrimSpace(out) + "; " + line, nil
	}
	return strings.TrimSpace(out), nil
}

// lineWith returns the first line that has a text.
func lineWith(text, part string) (string, bool) {
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if strings.Contains(s.Text(), part) {
			return s.Text(), true
		}
	}
	return "", false
}

// kill lets rank 1 kill itself in the middle of AllReduces: the others must hear of
// it within a second.
func (k *checker) kill() (string, error) {
	const np = 4
	out, _, err := k.job(137, onOne(np), "loop", "--bytes", strconv.FormatInt(k.large, 10))
	if err != nil {
		return "", err
	}
	killed := stamps(out, "killed at ")
	ended := stamps(out, "ended at ")
	if len(killed) != 1 || len(ended) != np-1 {
		return "", fmt.Errorf("%d ranks were killed and %d of %d others heard of it: %s", len(killed), len(ended), np-1, out)
	}
	for _, at := range ended {
		k.KillMs = max(k.KillMs, float64(at-killed[0])/1e6)
	}
	if k.KillMs > 1000 && !k.Fake {
		return "", fmt.Errorf("the last rank heard of it after %.0f ms", k.KillMs)
	}
	return fmt.Sprintf("the others' calls and streams ended within %.0f ms", k.KillMs), nil
}

// stamps returns the times, in nanoseconds, behind a text.
func stamps(out, before string) []int64 {
	var all []int64
	for _, m := range regexp.MustCompile(regexp.QuoteMeta(before)+`(\d+)`).FindAllStringSubmatch(out, -1) {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

func (k *checker) odd() (string, error) {
	out, _, err := k.job(0, onOne(3), "odd")
	line, _ := lineWith(out, "heard after")
	return line, err
}

// write writes the results.
func (k *checker) write(file string) error {
	text, err := json.MarshalIndent(&k.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o666)
}
