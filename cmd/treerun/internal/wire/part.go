//go:build linux

package wire

import (
	"errors"
	"math"

	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/internal/job"
)

// Part is the program of some of the ranks of a job of several programs. They follow those of the part before.
type Part struct {
	Ranks int // number of its ranks; the last part also has those that are added later
	Path  string
	Args  []string // from argv[0] on
	Dir   string   // "": that of the job
	Env   []string // NAME=VALUE, beside that of the job
	Share Share    // of its ranks
}

// Share has the settings of cores and GPUs that each program of a job may have for its ranks.
type Share struct {
	Bind    cores.Bind
	PerRank int // cores of each rank; 0: not given
	GPUs    gpus.Request
}

// PartOf returns the part of a job that has a rank; nil in a job of one program.
func (j *Run) PartOf(rank int) (p *Part) {
	for end, i := 0, 0; i < len(j.Parts) && rank >= end; i++ {
		p = &j.Parts[i]
		end += p.Ranks
	}
	return p
}

// ShareOf returns the settings of a rank.
func (j *Run) ShareOf(rank int) Share {
	if p := j.PartOf(rank); p != nil {
		return p.Share
	}
	return Share{j.Cores.Bind, j.Cores.PerRank, j.GPUs}
}

// CoresOf returns r, the settings of the job, with those of s in their place.
func (s Share) CoresOf(r cores.Request) cores.Request {
	if r.Bind, r.PerRank = s.Bind, s.PerRank; s.Bind == cores.None {
		r.MapBy = cores.Whole
	}
	return r
}

func (p Part) check() error {
	r := p.Share.CoresOf(cores.Request{})
	return errors.Join(within("ranks of a program: %d", p.Ranks, 1, job.MaxRanks), checkName(p.Path),
		within("words of a program's command: %d", len(p.Args), 1, math.MaxInt), r.Check(), p.Share.GPUs.Check())
}
