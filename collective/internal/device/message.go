package device

import (
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Transfer is one direction of an Exchange: the message that this rank sends to another one, or receives from it.
// Messages have links of their own, as the ranks of others do not know when they come.
type Transfer struct {
	Addr   cuda.Addr
	Peer   int
	Header call.Header // the same at both ends, with the length
}

// Exchange puts the sending of out and the receiving of in, of which either may be nil, behind the work of s, as
// Enqueue does with a call. A chunk is sent before the one of the same number is received: so ranks that do this in a
// circle wait for no chunk that waits for theirs. A message of a rank to itself is copied.
func (g *Group) Exchange(s *cuda.Stream, t kernel.DType, out, in *Transfer) error {
	p, c := schedule{}, Call{Work: kernel.Work{DType: t}}
	if out != nil && out.Peer == g.rank {
		c.In, c.Out, c.Header = out.Addr, in.Addr, out.Header
		st := step{ins: []use{{link: -1}}}
		st.Args, st.Dst = []plan.Operand{{From: -1, Buf: plan.In}}, plan.Out
		p.lanes, p.batches = []lane{{Share: whole}}, []batch{{steps: []step{st}}}
		return g.run(&p, s, &c)
	}
	if out != nil {
		c.In = out.Addr
		u := p.addMessage(g.cfg.Layout, out, true)
		st := &p.batches[0].steps[0]
		st.Args, st.To = []plan.Operand{{From: -1, Buf: plan.In}}, []plan.Target{{To: int32(out.Peer)}}
		st.ins, st.outs = []use{{link: -1}}, []output{{u, []use{u}}}
	}
	if in != nil {
		c.Out = in.Addr
		u := p.addMessage(g.cfg.Layout, in, false)
		st := &p.batches[len(p.batches)-1].steps[0]
		st.Args, st.Dst, st.ins = []plan.Operand{{From: int32(in.Peer)}}, plan.Out, []use{u}
	}
	return g.run(&p, s, &c)
}

// AwaitsPeer reports whether the messages for a rank of another host, or those from it, wait for that: the device has
// filled slots that are not sent, or read all that has come. Else they wait for this rank's device.
func (g *Group) AwaitsPeer(peer int, sends bool) bool {
	link := g.cfg.Layout.message(peer, sends)
	filled, _ := g.links.flag(link, published)
	read, _ := g.links.flag(link, released)
	return (filled.Load() != read.Load()) == sends
}

// MovedAt returns when something was last sent to, or came from, a rank of another host in messages, or since.
func (g *Group) MovedAt(peer int, sends bool, since time.Time) time.Time {
	if at := time.Unix(0, g.proxy.ends[g.cfg.Layout.message(peer, sends)].moved.Load()); at.After(since) {
		return at
	}
	return since
}

// whole is all of a message.
var whole = plan.Share{UpTo: 1 << 32, Widest: 1 << 32, First: true}

// addMessage adds a lane for m, with a step to be set, and returns its use of its link.
func (p *schedule) addMessage(l *Layout, m *Transfer, sends bool) use {
	i, n := l.message(m.Peer, sends), len(p.lanes)
	p.lanes = append(p.lanes, lane{Share: whole, message: m, uses: []linkUses{{i, 1, 1}}})
	p.batches = append(p.batches, batch{steps: []step{{lane: n}}, stream: n})
	p.streams++
	return use{link: i, lender: i}
}
