package place

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// leastPeerTimeout is as package rank wants it.
const leastPeerTimeout = 200 * time.Millisecond

// leastStallTimeout is so, too.
const leastStallTimeout = 100 * time.Millisecond

// remoteOptions are the flags that say how other hosts are reached.
type remoteOptions struct {
	agent, sshArgs string
	push           bool
	fanOut         int
	startTimeout   cmdline.Seconds
	peerTimeout    cmdline.Seconds
	stallTimeout   cmdline.Seconds
}

func (r *remoteOptions) define(f *pflag.FlagSet) {
	r.startTimeout, r.peerTimeout = cmdline.Seconds(60*time.Second), cmdline.Seconds(10*time.Second)
	f.StringVar(&r.agent, "launch-agent", "",
		"reach other hosts with `COMMAND` instead of ssh; {host} in it stands\nfor the host, and what is to run there is "+
			"appended")
	f.StringVar(&r.sshArgs, "ssh-args", "", "further `ARGUMENTS` for ssh")
	f.BoolVar(&r.push, "push", false, "send treerun and PROGRAM to the other hosts, into memory")
	f.IntVar(&r.fanOut, "fan-out", 16, "start treerun on at most `N` hosts from here, and so on from there")
	f.Var(&r.startTimeout, "start-timeout", "time for all hosts to answer, and then for all ranks to join")
	f.Var(&r.peerTimeout, "peer-timeout", "time after which a host that is not heard of is given up")
	f.Var(&r.stallTimeout, "stall-timeout",
		"time without progress after which a call fails on all ranks, with the\nrank that is waited for (default: none)")
}

// Remote says how other hosts are reached.
func (o *Options) Remote() (launch.Remote, error) {
	r := &o.remote
	out := launch.Remote{PushProgram: r.push, PeerTimeout: time.Duration(r.peerTimeout)}
	out.Push, out.FanOut, out.Timeout = r.push, r.fanOut, time.Duration(r.startTimeout)
	var err error
	switch {
	case r.agent != "" && !strings.Contains(r.agent, "{host}"):
		return out, cmdline.Usagef("--launch-agent %s: {host} must be in it", r.agent)
	case r.agent != "" && r.sshArgs != "":
		return out, cmdline.Usagef("--ssh-args is for ssh, not for --launch-agent")
	case r.fanOut < 1:
		return out, cmdline.Usagef("--fan-out %d: want at least 1", r.fanOut)
	case out.PeerTimeout < leastPeerTimeout || out.Timeout < 100*time.Millisecond:
		return out, cmdline.Usagef("--peer-timeout and --start-timeout: want at least %v and 100ms",
			leastPeerTimeout)
	}
	if o.flags.Changed("stall-timeout") && time.Duration(r.stallTimeout) < leastStallTimeout {
		return out, cmdline.Usagef("--stall-timeout: want at least %v", leastStallTimeout)
	}
	if out.Command, err = cmdline.Words(r.agent); err != nil {
		return out, cmdline.Usagef("--launch-agent %s: %w", r.agent, err)
	}
	if out.SSHArgs, err = cmdline.Words(r.sshArgs); err != nil {
		return out, cmdline.Usagef("--ssh-args %s: %w", r.sshArgs, err)
	}
	return out, nil
}
