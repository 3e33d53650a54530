package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

// Subcommand is the name of the ranks that run Serve, for launch.RankName.
const Subcommand = "check"

const (
	maxAnswer = 16 << 20               // bytes that a host may send
	maxAhead  = 100 * time.Millisecond // of a clock; synchronized clocks differ by less
	slowHost  = 5 * time.Second        // after which a host that has not answered is named
	nameLimit = 3 * time.Second        // for looking up all names
)

// hosts checks several hosts, each with a job with these flags whose rank runs Serve, and the network between
// them. devices is the value of --iface.
func hosts(p *printer, list []launch.JobHost, flags []string, devices string) {
	var names []string
	for _, at := range list {
		names = append(names, at.Name)
	}
	said, errs := make([][]fact, len(list)), make([]error, len(list))
	var asked sync.WaitGroup
	for i, at := range list {
		rank := []string{"--wdir=/", wire.Self, launch.RankName(Subcommand), devices, strconv.Itoa(len(at.Ranks))}
		asked.Go(func() { said[i], errs[i] = ask(at.Name, treerun(list[i:i+1], flags, append(rank, names...))) })
	}
	asked.Wait()
	var good []launch.JobHost
	for i, at := range list {
		if errs[i] != nil {
			p.line(Line{Wrong, "host", at.Name + ": " + errs[i].Error(), ""})
			said[i] = nil
			continue
		}
		good = append(good, at)
	}
	missing := State(len(list) - len(good))
	p.line(Line{min(missing, Note), "hosts", fmt.Sprintf("%d of %d answer", len(good), len(list)), ""})
	compare(p, names, said, len(good))
	if len(good) > 1 {
		l := Line{Good, "tcp", "each host reaches all others", "the lines above say what fails: a firewall, networks apart " +
			"(--iface), or " + netconn.TooLarge + "?"}
		cmd := treerun(good, append([]string{"topo"}, flags...), nil)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			l.State, l.Text = Wrong, "a rank on each host fails: "+err.Error()
		}
		p.line(l)
	}
}

// treerun returns the command of a treerun with one rank on each of hosts; its arguments are flags and rest.
func treerun(hosts []launch.JobHost, flags, rest []string) *exec.Cmd {
	list := make([]string, len(hosts))
	for i, f := range hosts {
		list[i] = f.Target
		if strings.Contains(f.Name, ":") {
			list[i] = strings.TrimSuffix(f.Target, f.Name) + "[" + f.Name + "]"
		}
	}
	args := slices.Concat([]string{"treerun"}, flags, []string{"--host=" + strings.Join(list, ","), "--ppn=1"}, rest)
	return &exec.Cmd{Path: wire.Self, Args: args, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}}
}

// ask runs cmd, which runs Serve on a host, and returns the lines that it sends. The time until the last message, which
// has the time of that host, bounds the error of the difference of its clock.
func ask(name string, cmd *exec.Cmd) (lines []fact, err error) {
	late := time.AfterFunc(slowHost, func() { fmt.Fprintf(os.Stderr, "treerun: host %s has not answered yet\n", name) })
	defer late.Stop()
	var stderr output.Tail
	cmd.Stderr = &stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, err
	}
	answers := json.NewDecoder(io.LimitReader(out, maxAnswer))
	var now int64
	err = answers.Decode(&lines)
	begin := time.Now()
	_ = in.Close()
	if err == nil {
		err = answers.Decode(&now)
	}
	within := time.Since(begin) / 2
	ahead := time.Unix(0, now).Sub(begin.Add(within))
	if ended := cmd.Wait(); ended != nil {
		text := strings.TrimPrefix(strings.Join(stderr.Lines(3), "; "), "treerun: ")
		err = errors.New(cmp.Or(strings.TrimPrefix(text, "start treerun on host "+name+": "), ended.Error()))
	}
	l := Line{Good, "clock", fmt.Sprintf("at most %v from this host's", maxAhead),
		"chrony or systemd-timesyncd on all hosts"}
	if ahead.Abs()+within > maxAhead {
		l.State, l.Text = Note, fmt.Sprintf("%+.1f ms from this host's, known to %.1f ms", 1e3*ahead.Seconds(),
			1e3*within.Seconds())
	}
	return append(lines, fact{Line: l}), err
}

// Serve prints the lines of this host, and when its stdin ends its time. args are the value of --iface, the number of
// ranks for which the host is checked, and the names of all hosts.
func Serve(h *Host, args []string) error {
	p := &printer{w: io.Discard}
	p.line(Line{Good, "treerun", wire.BuildVersion() + ", " + runtime.Version(), ""})
	ranks, _ := strconv.Atoi(args[1]) // treerun wrote the arguments
	h.look(p, ranks, args[0])
	ctx, cancel := context.WithTimeout(context.Background(), nameLimit)
	defer cancel()
	var known, unknown []string
	for _, name := range args[2:] {
		if addrs, _ := net.DefaultResolver.LookupHost(ctx, name); len(addrs) > 0 {
			slices.Sort(addrs)
			known = append(known, name+" is "+strings.Join(addrs, " and "))
		} else {
			unknown = append(unknown, name)
		}
	}
	const remedy = "one /etc/hosts or name server for all hosts"
	if text := strings.Join(known, ", "); known != nil {
		p.line(Line{Good, "names", text, remedy}, text)
	}
	if unknown != nil {
		p.line(Line{Note, "names", "no address for " + strings.Join(unknown, ", "), remedy})
	}
	err := json.NewEncoder(os.Stdout).Encode(p.lines)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, timeErr := fmt.Println(time.Now().UnixNano())
	return errors.Join(err, timeErr)
}

// compare writes the lines of the n hosts that have answered: once if all have the same line, otherwise with the hosts
// that have it, and as a Note if it should be the same on all hosts and is not that of the majority.
func compare(p *printer, names []string, said [][]fact, n int) {
	var lines []fact
	by := make(map[fact][]string)
	same := make(map[[2]string]int) // number of hosts, by What and Same of their lines
	for i, name := range names {
		for _, l := range said[i] {
			if by[l] == nil {
				lines = append(lines, l)
			}
			by[l] = append(by[l], name)
			same[[2]string{l.What, l.Same}]++
		}
	}
	for _, l := range lines {
		if hosts := by[l]; len(hosts) < n {
			l.Text = strings.Join(hosts, ", ") + ": " + l.Text
		}
		if l.State == Good && l.Same != "" && 2*same[[2]string{l.What, l.Same}] <= n {
			l.State = Note
		}
		p.line(l.Line)
	}
}
