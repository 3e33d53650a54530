package place

import (
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// leastPeerTimeout is as package rank wants it.
const leastPeerTimeout = 200 * time.Millisecond

// leastStallTimeout is so, too.
const leastStallTimeout = 100 * time.Millisecond

// Remote says how other hosts are reached.
func (o *Options) Remote() (launch.Remote, error) {
	out := launch.Remote{PushProgram: o.push, PeerTimeout: time.Duration(o.peerTimeout)}
	out.Push, out.FanOut, out.Timeout = o.push, o.fanOut, time.Duration(o.startTimeout)
	var err error
	switch {
	case o.agent != "" && !strings.Contains(o.agent, "{host}"):
		return out, cmdline.Usagef("--launch-agent %s: {host} must be in it", o.agent)
	case o.agent != "" && o.sshArgs != "":
		return out, cmdline.Usagef("--ssh-args is for ssh, not for --launch-agent")
	case o.fanOut < 1:
		return out, cmdline.Usagef("--fan-out %d: want at least 1", o.fanOut)
	case out.PeerTimeout < leastPeerTimeout || out.Timeout < 100*time.Millisecond:
		return out, cmdline.Usagef("--peer-timeout and --start-timeout: want at least %v and 100ms",
			leastPeerTimeout)
	}
	if o.flags.Changed("stall-timeout") && time.Duration(o.stallTimeout) < leastStallTimeout {
		return out, cmdline.Usagef("--stall-timeout: want at least %v", leastStallTimeout)
	}
	if out.Command, err = cmdline.Words(o.agent); err != nil {
		return out, cmdline.Usagef("--launch-agent %s: %w", o.agent, err)
	}
	if out.SSHArgs, err = cmdline.Words(o.sshArgs); err != nil {
		return out, cmdline.Usagef("--ssh-args %s: %w", o.sshArgs, err)
	}
	return out, nil
}
