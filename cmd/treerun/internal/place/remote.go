package place

import (
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// minPeerTimeout is as package rank wants it.
const minPeerTimeout = 200 * time.Millisecond

// minStallTimeout is so, too.
const minStallTimeout = 100 * time.Millisecond

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
	case out.PeerTimeout < minPeerTimeout || out.Timeout < 100*time.Millisecond:
		return out, cmdline.Usagef("--peer-timeout and --start-timeout: want at least %v and 100ms",
			minPeerTimeout)
	}
	if o.flags.Changed("stall-timeout") && time.Duration(o.stallTimeout) < minStallTimeout {
		return out, cmdline.Usagef("--stall-timeout: want at least %v", minStallTimeout)
	}
	if out.Command, err = cmdline.Words(o.agent); err != nil {
		return out, cmdline.Usagef("--launch-agent %s: %w", o.agent, err)
	}
	if out.SSHArgs, err = cmdline.Words(o.sshArgs); err != nil {
		return out, cmdline.Usagef("--ssh-args %s: %w", o.sshArgs, err)
	}
	return out, nil
}
