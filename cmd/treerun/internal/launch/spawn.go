package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/guard"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/pipe"
	"github.com/treerun/treerun/rank/job"
)

// Descriptors of a rank, after stdin, stdout and stderr.
const (
	jobFD     = 3
	controlFD = 4
)

// spawner starts the ranks of one job on this host.
type spawner struct {
	job    *Job
	file   job.File // what the job files of all ranks have in common
	env    []string // what the environments of all ranks have in common
	null   *os.File // stdin of all ranks but rank 0
	stdin  *os.File
	failed func(error) // told when a file of OutputDir cannot be written
	events chan<- event
	guard  *guard.Guard
	cores  []int // that the ranks are bound to, nil for none
}

// newSpawner prepares a job. What it opens, close closes.
func newSpawner(j *Job, failed func(error), events chan<- event) (*spawner, error) {
	fail := func(what string, err error) (*spawner, error) {
		return nil, exitcode.Errorf(exitcode.Internal, "%s: %w%s", what, err, openFilesHint(err))
	}
	secret, err := job.NewSecret()
	if err != nil {
		return fail("make the secret of the job", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fail("find the name of this host", err)
	}
	port, err := freePort()
	if err != nil {
		return fail("find a free port for MASTER_PORT", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail("start ranks", err)
	}
	stdin, err := rankStdin(j.Stdin)
	if err != nil {
		return fail("give stdin to rank 0", errors.Join(err, null.Close()))
	}
	file := job.File{
		Version: job.FileVersion, JobID: job.NewID(), Secret: secret, Size: j.Size, LocalSize: j.Size,
		Host: host, Hosts: make([]int, j.Size), ControlFD: controlFD, Settings: j.settings(),
	}
	j.Trace("job %s: %s on %s", file.JobID, count(j.Size, "rank"), host)
	return &spawner{
		job: j, file: file, env: jobEnv(j.Env, &file, port),
		null: null, stdin: stdin, failed: failed, events: events, cores: j.planBinding(),
	}, nil
}

// close closes what only starting ranks needs.
func (sp *spawner) close() {
	_ = sp.null.Close()
	if sp.stdin != sp.job.Stdin {
		_ = sp.stdin.Close()
	}
}

// start starts one rank in a process group of its own. It gets stdin, stdout,
// stderr, the job file and the control socket, and no other descriptor. The
// kernel kills it when the calling thread ends.
func (sp *spawner) start(rank int) (*child, error) {
	var theirs []int // the rank's ends, which are open here only until it has them
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
	}()
	c := &child{rank: rank}
	err := sp.open(c, &theirs)
	if err == nil {
		err = sp.exec(c, theirs)
	}
	if err != nil {
		c.discard()
		return nil, err
	}
	go c.out.Run()
	go c.err.Run()
	go c.control.receive(rank, sp.events)
	return c, nil
}

// open opens what connects us with the rank, and appends the rank's ends of
// stdout, stderr and the control socket to theirs.
func (sp *spawner) open(c *child, theirs *[]int) (err error) {
	if c.out, err = sp.stream(c.rank, "stdout", sp.job.Screen.Out, theirs); err != nil {
		return err
	}
	if c.err, err = sp.stream(c.rank, "stderr", sp.job.Screen.Err, theirs); err != nil {
		return err
	}
	if c.control, err = newLink(theirs); err != nil {
		return sp.startError(c.rank, err)
	}
	if c.file, err = sp.jobFile(c.rank); err != nil {
		return sp.startError(c.rank, err)
	}
	return nil
}

func (sp *spawner) exec(c *child, theirs []int) (err error) {
	stdin := sp.null
	if c.rank == 0 {
		stdin = sp.stdin
	}
	pidfd := -1 // stays so where the kernel has none
	err = sp.bound(c.rank, func() (err error) {
		c.pid, err = syscall.ForkExec(sp.job.Path, sp.job.Args, &syscall.ProcAttr{
			Dir:   sp.job.Dir,
			Env:   rankEnv(sp.env, c.rank),
			Files: []uintptr{stdin.Fd(), uintptr(theirs[0]), uintptr(theirs[1]), jobFD: c.file.Fd(), controlFD: uintptr(theirs[2])},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd},
		})
		return err
	})
	if err != nil {
		return sp.execError(c.rank, err)
	}
	if pidfd >= 0 {
		if err := sp.guard.Watch(c.pid, pidfd); err != nil {
			sp.job.Trace("%v", err)
		}
		_ = unix.Close(pidfd)
	}
	return nil
}

// stream opens the pipe of one of a rank's output streams, and the file for it
// if there is to be one.
func (sp *spawner) stream(rank int, name string, dst *output.Sink, theirs *[]int) (*output.Stream, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, sp.startError(rank, os.NewSyscallError("pipe2", err))
	}
	*theirs = append(*theirs, fds[1])
	src, err := pipe.NewReader(fds[0], fmt.Sprintf("%s of rank %d", name, rank))
	if err != nil {
		return nil, sp.startError(rank, err)
	}
	options := output.Options{Tag: sp.job.Tag, Single: sp.job.Size == 1, RawFailed: sp.failed}
	if sp.job.OutputDir != "" {
		if options.Raw, err = rawFile(sp.job.OutputDir, rank, sp.job.Size, name); err != nil {
			return nil, errors.Join(sp.startError(rank, err), src.Close())
		}
	}
	return output.NewStream(src, dst, rank, options), nil
}

// jobFile writes the rank's job file into memory that has no name. It stays
// open here so that we can tell whether the rank has read it.
func (sp *spawner) jobFile(rank int) (*os.File, error) {
	f := sp.file
	f.Rank, f.LocalRank = rank, rank
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

// startError tells what treerun could not get for a rank.
func (sp *spawner) startError(rank int, err error) error {
	return exitcode.Errorf(exitcode.Internal, "start rank %d of %d: %w%s", rank, sp.job.Size, err, openFilesHint(err))
}

// openFilesHint says what to do when err is that there are too many open files.
func openFilesHint(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return " (a rank takes 4 open files of treerun and more while it starts: see ulimit -n)"
	case errors.Is(err, unix.ENFILE):
		return " (the whole system's limit: see /proc/sys/fs/file-max)"
	}
	return ""
}

// execError tells why a program that was found could not be run.
func (sp *spawner) execError(rank int, err error) error {
	code, hint := exitcode.NotExecutable, ""
	switch {
	case errors.Is(err, unix.ENOENT):
		code, hint = exitcode.NotFound, " (the interpreter or loader that the file names is missing)"
	case errors.Is(err, unix.ENOEXEC):
		hint = " (a script needs #! and an interpreter in its first line)"
	case errors.Is(err, unix.EACCES):
		hint = " (is its file system mounted noexec? treerun builds in TMPDIR)"
	case errors.Is(err, unix.EAGAIN):
		code, hint = exitcode.Internal, " (the number of processes is limited: see ulimit -u)"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		code, hint = exitcode.Internal, openFilesHint(err)
	}
	return exitcode.Errorf(code, "start rank %d of %d: run %s: %w%s", rank, sp.job.Size, sp.job.Path, err, hint)
}

// freePort returns a TCP port of the loopback address that nobody has now.
func freePort() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return addr.(*unix.SockaddrInet4).Port, nil
}

// jobEnv returns the environment of a job's ranks without what differs from
// rank to rank.
func jobEnv(base []string, f *job.File, masterPort int) []string {
	size := strconv.Itoa(f.Size)
	return append(without(base, names),
		job.EnvFD+"="+strconv.Itoa(jobFD), job.EnvJobID+"="+f.JobID, job.EnvSize+"="+size, job.EnvLocalSize+"="+size,
		"WORLD_SIZE="+size, "LOCAL_WORLD_SIZE="+size, "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(masterPort))
}
