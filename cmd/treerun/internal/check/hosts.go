//go:build linux

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

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

// Subcommand is the name of the ranks that run Serve, for launch.RankName.
const Subcommand = "check"

const (
	maxAnswer      = 16 << 20               // bytes that a host may send
	maxClockOffset = 100 * time.Millisecond // of a clock; synchronized clocks differ by less
	slowAnswer     = 5 * time.Second        // after which a host that has not answered is named
	nameLimit      = 3 * time.Second        // for looking up all names
)

// checkHosts checks several hosts, each with a job with these flags whose rank runs Serve, and the network between
// them. devices is the value of --iface.
func checkHosts(p *printer, list []launch.JobHost, flags []string, devices string) {
	var names []string
	for _, h := range list {
		names = append(names, h.Name)
	}
	answers, errs := make([][]fact, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for i, h := range list {
		rank := []string{"--wdir=/", wire.Self, launch.RankName(Subcommand), devices, strconv.Itoa(len(h.Ranks))}
		wg.Go(func() { answers[i], errs[i] = query(h.Name, treerun(list[i:i+1], flags, append(rank, names...))) })
	}
	wg.Wait()
	var good []launch.JobHost
	for i, h := range list {
		if errs[i] != nil {
			p.add(Line{Wrong, "host", h.Name + ": " + errs[i].Error(), ""})
			answers[i] = nil
			continue
		}
		good = append(good, h)
	}
	missing := State(len(list) - len(good))
	p.add(Line{min(missing, Note), "hosts", fmt.Sprintf("%d of %d answer", len(good), len(list)), ""})
	compare(p, names, answers, len(good))
	if len(good) > 1 {
		l := Line{Good, "tcp", "each host reaches all others",
			"the lines above name the fault: a firewall, separate networks " +
				"(--iface), or " + netconn.TooLarge + "?"}
		cmd := treerun(good, append([]string{"topo"}, flags...), nil)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			l.State, l.Text = Wrong, "a rank on each host fails: "+err.Error()
		}
		p.add(l)
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

// query runs cmd, which runs Serve on a host, and returns the lines that it sends. The time until the last message,
// which has the time of that host, bounds the error of the difference of its clock.
func query(name string, cmd *exec.Cmd) (lines []fact, err error) {
	timer := time.AfterFunc(slowAnswer, func() {
		fmt.Fprintf(os.Stderr, "treerun: host %s has not answered yet\n", name)
	})
	defer timer.Stop()
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
	margin := time.Since(begin) / 2
	offset := time.Unix(0, now).Sub(begin.Add(margin))
	if ended := cmd.Wait(); ended != nil {
		text := strings.TrimPrefix(strings.Join(stderr.Lines(3), "; "), "treerun: ")
		err = errors.New(cmp.Or(strings.TrimPrefix(text, "start treerun on host "+name+": "), ended.Error()))
	}
	l := Line{Good, "clock", fmt.Sprintf("at most %v from this host's", maxClockOffset),
		"chrony or systemd-timesyncd on all hosts"}
	if offset.Abs()+margin > maxClockOffset {
		l.State, l.Text = Note, fmt.Sprintf("%+.1f ms from this host's, to within %.1f ms", 1e3*offset.Seconds(),
			1e3*margin.Seconds())
	}
	return append(lines, fact{Line: l}), err
}

// Serve prints the lines of this host, and when its stdin ends its time. args are the value of --iface, the number of
// ranks for which the host is checked, and the names of all hosts.
func Serve(h *System, args []string) error {
	p := &printer{w: io.Discard}
	p.add(Line{Good, "treerun", cmdline.BuildVersion() + ", " + runtime.Version(), ""})
	ranks, _ := strconv.Atoi(args[1]) // treerun wrote the arguments
	h.check(p, ranks, args[0])
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
		p.add(Line{Good, "names", text, remedy}, text)
	}
	if unknown != nil {
		p.add(Line{Note, "names", "no address for " + strings.Join(unknown, ", "), remedy})
	}
	err := json.NewEncoder(os.Stdout).Encode(p.lines)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, timeErr := fmt.Println(time.Now().UnixNano())
	return errors.Join(err, timeErr)
}

// compare writes the lines of the n hosts that have answered: once if all have the same line, otherwise with the hosts
// that have it, and as a Note if it should be the same on all hosts and is not that of the majority.
func compare(p *printer, names []string, answers [][]fact, n int) {
	var lines []fact
	by := make(map[fact][]string)
	same := make(map[[2]string]int) // number of hosts, by What and Same of their lines
	for i, name := range names {
		for _, l := range answers[i] {
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
		p.add(l.Line)
	}
}
