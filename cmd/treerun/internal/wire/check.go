package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/rank/job"
)

func checkRank(r int) error {
	if r < 0 || r >= job.MaxRanks {
		return fmt.Errorf("rank %d, want 0..%d", r, job.MaxRanks-1)
	}
	return nil
}

func (s *Stream) check() error {
	if s.Number < Stdout || s.Number > Stdin {
		return fmt.Errorf("stream %d", s.Number)
	}
	return checkRank(s.Rank)
}

func checkText(s string) error {
	if len(s) > maxText {
		return fmt.Errorf("text of %d bytes, at most %d are possible", len(s), maxText)
	}
	return nil
}

func checkCode(n int) error {
	if n < 0 || n > 255 {
		return fmt.Errorf("number %d, want 0..255", n)
	}
	return nil
}

func (*Alive) check() error       { return nil }
func (*Stop) check() error        { return nil }
func (*Finish) check() error      { return nil }
func (*RanksExited) check() error { return nil }
func (*Goodbye) check() error     { return nil }

func (n *Node) check() error {
	if n.Node < 1 || n.Node >= job.MaxRanks || n.Default < 1 || n.Default > job.MaxRanks || n.Size < 0 ||
		n.Size > job.MaxRanks || n.PerNode < 0 || n.PerNode > job.MaxRanks || n.Host == "" || len(n.Host) > 255 ||
		len(n.Args) == 0 {
		return fmt.Errorf("a hello that makes no sense: node %d, %d ranks, host %.40q", n.Node, n.Default, n.Host)
	}
	return nil
}

func (j *Join) check() error {
	for _, b := range j.Below {
		if b.Index < 0 || b.Index >= job.MaxRanks || b.Name == "" || b.Target == "" {
			return fmt.Errorf("host %d called %.40q", b.Index, b.Name)
		}
	}
	switch {
	case j.Index < 0 || j.Index >= job.MaxRanks:
		return fmt.Errorf("host %d", j.Index)
	case j.PeerTimeout < time.Millisecond || j.Start.Timeout < time.Millisecond:
		return fmt.Errorf("timeouts of %v and %v", j.PeerTimeout, j.Start.Timeout)
	case j.Start.FanOut < 1:
		return fmt.Errorf("%d agents below one", j.Start.FanOut)
	case j.Dir == "":
		return errors.New("no working directory")
	case j.Name == "":
		return errors.New("no name of the host")
	}
	return nil
}

func (j *Job) check() error {
	f := &j.File
	switch {
	case len(j.Args) == 0:
		return errors.New("a program without a name")
	case f.Size < 1 || f.Size > job.MaxRanks || len(f.Hosts) != f.Size:
		return fmt.Errorf("%d ranks, and hosts of %d", f.Size, len(f.Hosts))
	case f.Version != job.FileVersion:
		return fmt.Errorf("job file of version %d, want %d", f.Version, job.FileVersion)
	case j.Port < 0 || j.Port > 65535:
		return fmt.Errorf("port %d", j.Port)
	case j.GPUs.Bind < 0 || j.GPUs.PerGPU < 0 || len(j.GPUs.List) > maxText:
		return fmt.Errorf("GPUs %d, %d a GPU, a list of %d bytes", j.GPUs.Bind, j.GPUs.PerGPU, len(j.GPUs.List))
	}
	for r, h := range f.Hosts {
		if h < 0 || h > r {
			return fmt.Errorf("rank %d is on host %d", r, h)
		}
		if n := len(j.Machines); n > 0 && h >= n {
			return fmt.Errorf("rank %d is on host %d, machines are told of %d", r, h, n)
		}
	}
	return job.CheckID(f.JobID)
}

func (s *Signal) check() error {
	if s.Number < 1 || s.Number > 64 {
		return fmt.Errorf("signal %d", s.Number)
	}
	return nil
}

func (p *Push) check() error {
	if len(p.Sum) != sha256.Size {
		return fmt.Errorf("checksum of %d bytes", len(p.Sum))
	}
	return nil
}

func (r *Ready) check() error {
	if r.Port < 0 || r.Port > 65535 || r.Cores < 1 || r.Host == "" {
		return fmt.Errorf("host %.40q with %d cores and port %d", r.Host, r.Cores, r.Port)
	}
	return errors.Join(checkText(r.Host), checkText(r.Machine))
}

func (s *Started) check() error {
	if len(s.Ranks) != len(s.PIDs) {
		return fmt.Errorf("%d ranks with %d processes", len(s.Ranks), len(s.PIDs))
	}
	for _, r := range s.Ranks {
		if err := checkRank(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *RankMessage) check() error {
	if s.Message == nil {
		return checkRank(s.Rank)
	}
	return errors.Join(checkRank(s.Rank), s.Message.Validate())
}

func (e *Ended) check() error {
	for _, e := range e.Ends {
		if err := errors.Join(checkRank(e.Rank), checkCode(e.Code), checkCode(e.Signal), checkText(e.Hint)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lost) check() error {
	for _, h := range l.Hosts {
		if h < 0 || h >= job.MaxRanks {
			return fmt.Errorf("host %d", h)
		}
	}
	return errors.Join(checkText(l.Text), checkCode(l.Code))
}

func (n *Note) check() error { return checkText(n.Text) }

func (r *Result) check() error { return errors.Join(checkText(r.Text), checkCode(r.Code)) }
