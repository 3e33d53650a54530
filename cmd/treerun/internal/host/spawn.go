//go:build linux

package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// Descriptors of a rank, after stdin, stdout and stderr.
const (
	jobFD     = 3
	controlFD = 4
)

// CoresSetting is the name of the setting with the number of cores that the ranks of a host have together: a rank that
// is bound sees only its own.
const CoresSetting = "cores"

// CPUsSetting is the name of the setting with the numbers of the cores among which the ranks of a host are bound,
// separated by commas; only ranks that are bound have it.
const CPUsSetting = "cpus"

// sharedCPUsSetting is CPUsSetting where ranks that share a core may leave it for others.
const sharedCPUsSetting = "shared-cpus"

// spawner starts the ranks of one host.
type spawner struct {
	host   *Host
	ranks  []int    // of this host
	file   job.File // the common part of the job files of these ranks
	env    []string // the common part of the environments of these ranks
	null   *os.File // stdin of all ranks but one
	places *Places
	memory *memoryGroups // nil: ranks have no limit of memory
}

// newSpawner prepares the ranks of a host. close closes the files that it opens.
func newSpawner(h *Host) (*spawner, error) {
	if n := len(h.ranks); n > 1 && n == h.job.File.Size {
		if err := checkLoopback(); err != nil {
			return nil, err
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start ranks: %w%s", err, LimitHint(err))
	}
	file := h.job.File
	file.LocalSize, file.Host, file.ControlFD = len(h.ranks), h.cfg.Name, controlFD
	file.Settings = map[string]string{CoresSetting: strconv.Itoa(h.cfg.Cores)}
	maps.Copy(file.Settings, h.job.File.Settings)
	env := without(h.cfg.Env, rankVariables...)
	for _, e := range h.job.Env {
		env = Setenv(env, e)
	}
	sp := &spawner{host: h, ranks: h.ranks, file: file, env: jobEnv(env, &file, h.job), null: null}
	if err = sp.place(env); err == nil {
		sp.memory, err = newMemoryGroups("/", file.JobID, h.job.Memory)
	}
	if err != nil {
		sp.close()
		return nil, err
	}
	return sp, nil
}

// close closes the files that only the start of ranks needs.
func (sp *spawner) close() { _ = sp.null.Close() }

// start starts one rank in a process group of its own. It gets stdin, stdout,
// stderr, the job file and the control socket, and no other descriptor. The
// kernel kills it when the calling thread ends.
func (sp *spawner) start(local, attempt int) (*child, error) {
	var theirs []int // the rank's ends, which are open here only until it has them
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
	}()
	c := &child{rank: sp.ranks[local], attempt: attempt, stacks: make(chan string, 1)}
	err := sp.open(c, local, &theirs)
	if err != nil {
		err = StartError(c.rank, sp.file.Size, err)
	} else {
		err = sp.exec(c, local, theirs)
	}
	if err != nil {
		c.discard()
		return nil, err
	}
	sp.host.reaper.OnExit(c.pid, func(status unix.WaitStatus) { sp.host.onEnded(c, status) })
	sp.host.reaper.Hold(c.pid)
	for i, src := range c.streams {
		sp.host.cfg.Stream(&wire.Stream{Rank: c.rank, Number: i, Attempt: attempt}, src)
	}
	go c.receive(sp.host)
	return c, nil
}

// open opens the connections with the rank, and appends the rank's ends of stdout, stderr and the control socket to
// theirs.
func (sp *spawner) open(c *child, local int, theirs *[]int) (err error) {
	names := streamNames[:]
	if sp.host.job.OneOutput {
		names = names[:wire.Stdout+1]
	}
	for _, name := range names {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return os.NewSyscallError("pipe2", err)
		}
		*theirs = append(*theirs, fds[1])
		p, err := NewPipe(fds[0], fmt.Sprintf("%s of rank %d", name, c.rank))
		if err != nil {
			return err
		}
		c.streams = append(c.streams, p)
	}
	if err = c.openControl(theirs); err == nil {
		c.file, err = sp.jobFile(c.rank, local)
	}
	return err
}

// streamNames are the names of a rank's streams.
var streamNames = [wire.Streams]string{"stdout", "stderr"}

func (sp *spawner) exec(c *child, local int, theirs []int) (err error) {
	stdin, own, err := sp.stdin(c.rank)
	if err != nil {
		return StartError(c.rank, sp.file.Size, err)
	}
	if own {
		defer stdin.Close()
	}
	p := sp.programOf(c.rank)
	path, args := p.Path, p.Args
	if c.debugged = slices.Contains(sp.host.job.Debug, c.rank); c.debugged {
		if path, args, err = sp.debugger(path, args); err != nil {
			return StartError(c.rank, sp.file.Size, err)
		}
	}
	if err := sp.memory.add(c); err != nil {
		return StartError(c.rank, sp.file.Size, err)
	}
	env := rankEnv(sp.env, c.rank, local, sp.places.gpus[local])
	for _, e := range p.Env {
		env = Setenv(env, e)
	}
	c.dir, c.began = p.Dir, time.Now()
	n := len(c.streams) // of 1, stderr is stdout
	attr := &syscall.ProcAttr{
		Dir: p.Dir,
		Env: env,
		Files: []uintptr{stdin.Fd(), uintptr(theirs[0]), uintptr(theirs[n-1]), jobFD: c.file.Fd(),
			controlFD: uintptr(theirs[n])},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	err = sp.withBinding(local, func() error {
		return sp.memory.fork(c, attr.Sys, func() (err error) {
			c.pid, err = syscall.ForkExec(path, args, attr)
			return err
		})
	})
	if err != nil {
		return sp.execError(c.rank, p.Path, err)
	}
	return nil
}

// programOf returns the program of a rank, with its folder.
func (sp *spawner) programOf(rank int) wire.Part {
	j := sp.host.job
	p := wire.Part{Path: sp.host.program.Path, Args: j.Args}
	if own := j.PartOf(rank); own != nil {
		p = *own
	}
	p.Dir = cmp.Or(p.Dir, sp.host.cfg.Dir)
	return p
}

// jobFile writes the rank's job file into memory that has no name. It remains open here, so that this process can check
// whether the rank has read it.
func (sp *spawner) jobFile(rank, local int) (*os.File, error) {
	f := sp.file
	f.Rank, f.LocalRank = rank, local
	if gpu := sp.places.gpus[local].GPU; gpu != nil {
		f.Device = gpu.UUID
	}
	var b bytes.Buffer
	if err := job.WriteFile(&b, &f); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("treerun-job", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "job file")
	if _, err := file.WriteAt(b.Bytes(), 0); err != nil { // leaves the offset at 0
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// StartError returns the error for a resource that treerun could not get for a rank.
func StartError(rank, size int, err error) error {
	return fmt.Errorf("start rank %d of %d: %w%s", rank, size, err, LimitHint(err))
}

// execError returns the error for a program that was found and could not be run.
func (sp *spawner) execError(rank int, path string, err error) error {
	code, hint := cmdline.ExitNotExecutable, ""
	switch {
	case errors.Is(err, unix.ENOENT):
		code, hint = cmdline.ExitNotFound, " (the interpreter or loader that the file names is missing)"
		if _, gone := os.Stat(path); gone != nil {
			if hint = " (the file was there before)"; len(sp.host.job.Parts) > 0 {
				hint = " (hint: the programs of a job of several must be on each host that runs them)"
			}
		}
	case errors.Is(err, unix.ENOEXEC):
		hint = formatHint(path)
	case errors.Is(err, unix.EACCES):
		hint = " (is its file system mounted noexec? treerun builds in TMPDIR)"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE),
		errors.Is(err, unix.EAGAIN):
		code, hint = cmdline.ExitInternal, LimitHint(err)
	}
	return cmdline.Errorf(code, "start rank %d of %d: run %s: %w%s", rank, sp.file.Size, path, err, hint)
}

// LimitHint names the limit of this host that an error is about, and the remedy. It is for the end of the error's text,
// and empty where no limit is known.
func LimitHint(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		var r unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r) // Go has raised it as far as it may
		return fmt.Sprintf(" (the limit is %d open files for each process: treerun needs 20, and 4 for each rank; "+
			"ulimit -n, LimitNOFILE= or docker --ulimit nofile raises it)", r.Max)
	case errors.Is(err, unix.ENFILE):
		return " (the whole system's limit: see /proc/sys/fs/file-max)"
	case errors.Is(err, unix.EAGAIN):
		return " (no more processes and threads: ulimit -u, LimitNPROC= or docker --ulimit nproc raises the limit of this " +
			"user, TasksMax= or docker --pids-limit that of the control group)"
	}
	return ""
}

// MinAddressSpace is the limit of address space, in bytes, below which a launcher, an agent or a rank in Go does not
// start: the Go runtime reserves 0.8 to 1.3 GB before main begins, and the C library 64 MiB for each of the first
// threads. With 2 GiB one job of six ranks in ten was seen to die with pages of text.
const MinAddressSpace = 3 << 30

// CheckAddressSpace returns an error where this process has less address space than a launcher, an agent or a rank
// needs; ranks have the same limit. Call it at the beginning, before the threads start.
func CheckAddressSpace() error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil || r.Cur >= MinAddressSpace {
		return nil
	}
	return fmt.Errorf("the limit is %d KiB of address space for each process, and treerun and its ranks need %d each, "+
		"most of it without memory (ulimit -v unlimited or LimitAS= raises it; a control group limits memory)",
		r.Cur>>10, MinAddressSpace>>10)
}

// checkLoopback returns an error where the loopback device is down, over which ranks reach each other when all are on
// this host.
func checkLoopback() error {
	if lo, err := net.InterfaceByName("lo"); err != nil || lo.Flags&net.FlagUp != 0 {
		return nil
	}
	return errors.New("the loopback device lo is down: ranks on one host need it (hint: ip link set lo up)")
}

// rankVariables are the environment variables that every rank gets.
var rankVariables = []string{
	job.EnvFD, job.EnvJobID, job.EnvRank, job.EnvSize, job.EnvLocalRank, job.EnvLocalSize, job.EnvEpoch, job.EnvDevice,
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", restartVariable,
}

// restartVariable has the number of restarts, as torchrun sets it.
const restartVariable = "TORCHELASTIC_RESTART_COUNT"

// RankVariables returns the names of the environment variables that every rank gets
// from treerun.
func RankVariables() []string { return slices.Clone(rankVariables) }

// jobEnv returns the environment of a host's ranks without the variables that differ from rank to rank.
func jobEnv(base []string, f *job.File, j *wire.Run) []string {
	size, local := strconv.Itoa(f.Size), strconv.Itoa(f.LocalSize)
	return append(base,
		job.EnvFD+"="+strconv.Itoa(jobFD), job.EnvJobID+"="+f.JobID, job.EnvSize+"="+size, job.EnvLocalSize+"="+local,
		epochVariable(f.Epoch), restartVariable+"="+strconv.Itoa(f.Epoch), "WORLD_SIZE="+size,
		"LOCAL_WORLD_SIZE="+local, "MASTER_ADDR="+j.Master,
		"MASTER_PORT="+strconv.Itoa(j.Port))
}

// rankEnv returns the environment of one rank.
func rankEnv(common []string, rank, local int, g gpus.Rank) []string {
	r, l := strconv.Itoa(rank), strconv.Itoa(local)
	if g.Visible != "" {
		common = Setenv(common, visibleDevices+"="+g.Visible)
	}
	if g.GPU != nil {
		common = append(slices.Clip(common), job.EnvDevice+"="+g.GPU.UUID)
	}
	return append(slices.Clip(common), job.EnvRank+"="+r, job.EnvLocalRank+"="+l, "RANK="+r, "LOCAL_RANK="+l)
}

// visibleDevices is the name of the variable with the GPUs that CUDA shows.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// without returns a copy of env that lacks the named variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// Setenv returns a copy of env with an entry NAME=VALUE as the only one of its name.
func Setenv(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	return append(without(env, name), entry)
}

// Describe returns the launcher's data on this host.
func Describe() (*wire.Ready, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cores := job.UsableCores()
	return &wire.Ready{Host: name, PID: os.Getpid(), Cores: cores, Port: port, Machine: job.MachineID(cores)}, nil
}

// freePort returns a free TCP port, for MASTER_PORT.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, cmp.Or(checkLoopback(), fmt.Errorf("find a free port for MASTER_PORT: %w%s", err, LimitHint(err)))
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("find a free port for MASTER_PORT: getsockname: the system does not report the address")
	}
	return addr.Port, nil
}
