//go:build linux

package launch

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

func newSupervisor(j *Job) (*supervisor, error) {
	s := &supervisor{
		job: j, start: time.Now(), reaper: host.NewReaper(),
		events: make(chan func(), 64), quit: make(chan struct{}),
		looks: make(map[int]*look),
	}
	s.recordings = newRecordings(s)
	if j.StdinRank == wire.StdinAll && len(j.Hosts) > 0 {
		s.input = new(host.Input)
	}
	lives := j.Lives
	lives.Size = j.Size
	s.members = membership.New(lives)
	s.roster = numbers.Below(j.Size)
	if text := j.Settings["stall-timeout"]; text != "" {
		var err error
		if s.stallTimeout, err = job.ParseTime(text); err != nil {
			return nil, fmt.Errorf("--stall-timeout: %w", err)
		}
	}
	if j.Timeout > 0 {
		s.after(j.Timeout, s.onTimeout)
	}
	j.Screen.Out.OnError(s.outputFailed)
	j.Screen.Err.OnError(s.outputFailed)
	if err := s.placeRanks(); err != nil {
		s.reaper.Close()
		return nil, err
	}
	return s, nil
}

// placeRanks makes the hosts and the ranks on them.
func (s *supervisor) placeRanks() error {
	here, err := host.Describe()
	if err != nil {
		return err
	}
	hosts := s.job.Hosts
	if len(hosts) == 0 {
		hosts = []JobHost{{Name: here.Host, Local: true, Ranks: numbers.Below(s.job.Size)}}
	}
	s.ranks = make([]*rankState, s.job.Size)
	if s.renews() {
		s.idle = slices.Clone(s.job.Idle)
	}
	for i, h := range hosts {
		state := &hostState{JobHost: h, index: i, node: i, ready: new(wire.Ready), began: len(h.Ranks), place: i}
		if h.Local {
			state.phase, state.ready, state.port = ready, here, here.Port
		}
		s.hosts = append(s.hosts, state)
		for _, r := range h.Ranks {
			if s.ranks[r], err = s.newRank(state, r, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// newRank returns the state of a process that will be started, with the streams that carry its output to the screen and
// to files.
func (s *supervisor) newRank(h *hostState, rank, attempt int) (*rankState, error) {
	r := &rankState{host: h, End: End{End: wire.End{Rank: rank, Attempt: attempt}, Host: h.Name}}
	sinks := [wire.Streams]*output.Sink{s.job.Screen.Out, s.job.Screen.Err}
	for i, file := range [wire.Streams]string{"stdout", "stderr"} {
		options := output.Options{Tag: s.job.Tag, Host: h.Name, Single: s.job.Size == 1 && !s.renews(),
			Hidden: s.job.Show != nil && !slices.Contains(s.job.Show, rank)}
		if s.job.OutputDir != "" {
			var err error
			folder := rankFolder(rank, s.job.Size)
			if options.Raw, err = rawFile(s.job.OutputDir, folder, file, attempt > 0); err != nil {
				return nil, host.StartError(rank, s.job.Size, err)
			}
		}
		r.streams[i] = output.NewStream(sinks[i], rank, options)
		if i == wire.Stderr && s.job.OneOutput { // its file remains empty
			r.streams[i].Discard()
			r.streams[i], r.opened[i] = r.streams[wire.Stdout], true
			continue
		}
		s.printing++
	}
	return r, nil
}

// startAll starts all ranks; or some, and then abandons the job, unless the user or the time limit has stopped it.
func (s *supervisor) startAll() {
	stopped := func() bool { return s.cause.kind != noCause }
	if s.tree == nil {
		if err := s.startAgents(); err != nil {
			s.abandon(err)
		}
	}
	connecting := "connecting:"
	if s.job.Remote.PushProgram {
		connecting = "connecting, and sending the program:"
	}
	s.waitShowing(s.reaching(ready, connecting), func() bool { return s.allReached(ready) || stopped() })
	j := s.wireJob()
	if !stopped() {
		if err := s.startLocal(j); err != nil {
			s.abandon(err)
		}
	}
	if stopped() { // no host will report anything
		for _, h := range s.hosts {
			s.onHostDone(h)
		}
		return
	}
	s.sendTo(wire.All, j)
	s.run = j
	if h := s.reader(); h != nil && !h.Local && s.attempt == 0 {
		go s.sendInput(h)
	}
	if s.input != nil && s.attempt == 0 {
		go s.sendInputToAll()
	}
	starting := "starting ranks:"
	if s.job.Remote.PushProgram {
		starting = "sending the program, and starting ranks:"
	}
	s.waitShowing(s.reaching(started, starting), func() bool { return s.allReached(started) })
	if s.job.Lives.Policy != membership.Stop {
		s.limitUnreported()
	}
	if s.control == nil {
		s.listen()
		s.after(outputEvery, s.watchOutput)
	}
	if s.job.Watch != nil && s.attempt == 0 {
		s.job.Watch(s.recordings.live)
	}
	if s.renews() {
		go s.takeBack()
	}
	what, started := numbers.Count(len(s.ranks), "rank"), 0
	for _, r := range s.ranks {
		if r.running {
			started++
		}
	}
	if started < len(s.ranks) {
		what = fmt.Sprintf("%d of %s", started, what)
	}
	s.job.Trace("started %s", what)
}

// startAgents starts agents on the other hosts.
func (s *supervisor) startAgents() error {
	j, r := s.job, &s.job.Remote
	join := wire.Join{
		Program: j.Program, Path: j.Path, Dir: j.Dir, PeerTimeout: r.PeerTimeout, Verbose: j.Settings["verbose"] != "",
		Start: r.AgentOptions,
	}
	for _, h := range s.hosts {
		if !h.Local {
			join.Below = append(join.Below, wire.Below{Index: h.index, Name: h.Name, Target: h.Target})
		}
	}
	var err error
	if join.Start.Treerun, err = os.Executable(); err != nil {
		err = fmt.Errorf("find this executable: %w", err)
	}
	if r.PushProgram {
		join.Path = ""
	}
	s.tree = agent.New(agent.Config{
		Reaper: s.reaper, Join: join, Trace: j.Trace, Open: r.Open,
		Emit: func(f *wire.Frame, stream net.Conn) { s.post(func() { s.receive(s.hosts[f.Host], f.Body, stream) }) },
	})
	if err == nil && r.PushProgram && len(join.Below) > 0 {
		err = s.push(wire.All)
	}
	return err
}

// wireJob returns the job for all hosts.
func (s *supervisor) wireJob() *wire.Run {
	file := job.File{
		Version: job.FileVersion, JobID: job.NewID(), Secret: job.NewSecret(), Size: s.job.Size,
		Hosts: make([]int, s.job.Size), Settings: s.job.Settings, Epoch: s.attempt, Renews: s.renews(),
		OtherHosts: len(s.hosts)+len(s.idle) > 1, Events: s.job.Events,
	}
	if id := cmp.Or(s.job.Remote.JobID, s.jobID); id != "" {
		file.JobID = id
	}
	s.jobID = file.JobID
	for i, r := range s.ranks {
		file.Hosts[i] = r.host.place
	}
	first := s.ranks[0].host
	j := &wire.Run{File: file, Args: s.job.Args, Parts: s.job.Parts, Env: s.job.Exports, Cores: s.job.Cores,
		Machines: s.machines(), GPUs: s.job.GPUs, Master: "127.0.0.1", Port: first.port, Stdin: s.job.StdinRank,
		ReportBindings: s.job.Report && s.attempt == 0, Again: s.job.Lives.Policy != membership.Stop,
		Debug: s.job.Debug, Memory: int64(s.job.Memory), OneOutput: s.job.OneOutput}
	switch {
	case s.job.Remote.Master != "":
		j.Master = s.job.Remote.Master
	case !first.Local:
		j.Master = first.Name
	case file.OtherHosts:
		j.Master = first.ready.Host
	}
	s.job.Trace("job %s: %s on %s", file.JobID, numbers.Count(s.job.Size, "rank"), s.hostNames())
	return j
}

// machines returns which hosts share cores, nil where there is only one.
func (s *supervisor) machines() []int {
	if len(s.hosts) == 1 {
		return nil
	}
	hosts, ids := make([]int, len(s.hosts)), make([]string, len(s.hosts))
	for i, h := range s.hosts {
		hosts[i], ids[h.place] = i, h.ready.Machine // behind a lost host comes the one in its place
	}
	return job.SharedMachines(hosts, ids)
}

// hostNames names the hosts, in the space there is.
func (s *supervisor) hostNames() string {
	if n := len(s.hosts); n > 1 {
		return fmt.Sprintf("%d hosts, from %s to %s", n, s.hosts[0].Name, s.hosts[n-1].Name)
	}
	return s.hosts[0].Name
}

// startLocal starts the ranks of this host.
func (s *supervisor) startLocal(j *wire.Run) error {
	i := slices.IndexFunc(s.hosts, func(h *hostState) bool { return h.Local })
	if i < 0 {
		return nil
	}
	cfg := host.Config{
		Reaper: s.reaper, Index: i, Dir: s.job.Dir, Env: s.job.Env, Trace: s.job.Trace,
		Name: s.hosts[i].Name, Cores: s.hosts[i].ready.Cores,
		Report: func(b wire.Body) { s.post(func() { s.receive(s.hosts[i], b, nil) }) },
		Stream: func(b *wire.Stream, src *host.Pipe) { s.post(func() { s.receive(s.hosts[i], b, src) }) },
	}
	if s.local == nil {
		s.program = host.Program{Path: s.job.Path, Reader: s.job.StdinRank}
		var err error
		if s.reader() == s.hosts[i] || s.job.StdinRank == wire.StdinAll && s.input == nil {
			s.program.Stdin, err = rankStdin(s.job.Stdin)
		} else if s.input != nil {
			var w *os.File
			if s.program.Stdin, w, err = os.Pipe(); err == nil {
				s.input.Add(w)
			}
		}
		if err != nil {
			return fmt.Errorf("open the stdin of ranks: %w", err)
		}
		s.program.Pipe = s.program.Stdin != s.job.Stdin
		s.local = host.New(cfg)
	}
	s.local.Start(j, s.program)
	return nil
}

// reader returns the host of the rank that reads stdin, nil if none does.
func (s *supervisor) reader() *hostState {
	if s.job.StdinRank < 0 {
		return nil
	}
	return s.ranks[s.job.StdinRank].host
}

// sendInput copies this process's stdin to a rank on another host. It reads ahead of the rank, and ends with its
// reader; else with this process.
func (s *supervisor) sendInput(h *hostState) {
	stream, err := s.tree.Stream(&wire.Frame{Host: h.index, Body: &wire.Stream{Number: wire.Stdin}})
	if err == nil { // else the host is lost
		wire.Relay(stream, readable(s.job.Stdin))
	}
}

// sendInputToAll copies this process's stdin to all hosts that have ranks.
func (s *supervisor) sendInputToAll() {
	for _, h := range s.hosts {
		if h.Local || h.began == 0 {
			continue
		}
		stream, err := s.tree.Stream(&wire.Frame{Host: h.index, Body: &wire.Stream{Number: wire.Stdin}})
		if err == nil { // else the host is lost
			s.input.Add(stream)
		}
	}
	s.input.Copy(readable(s.job.Stdin), s.renews())
}

// push sends the program to another host, or to all others.
func (s *supervisor) push(host int) error {
	sum, err := wire.Checksum(s.job.Path)
	if err != nil {
		return fmt.Errorf("send the program: %w", err)
	}
	s.tree.Push(&wire.Frame{Host: host, Body: &wire.Push{Sum: sum}}, s.job.Path)
	return nil
}
