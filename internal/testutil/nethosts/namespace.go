package nethosts

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// holder is the script of the process that keeps a namespace: it sets the host
// up, waits for the end of its input, which our death brings as well, kills all
// that runs in its network namespace, and ends.
//
//go:embed holder.sh
var holder string

// namespace is one host, or the switches.
type namespace struct {
	name string
	cmd  *exec.Cmd
	life io.WriteCloser
	net  os.FileInfo // identifies the network namespace
}

// newNamespace makes namespaces with a hostname; if they are not empty, the file
// names is their /etc/hosts, and the folder dir goes with them.
func newNamespace(name, names, dir string) (*namespace, error) {
	cmd := exec.Command("sh", "-c", holder, "nethosts-"+name, name, names, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS,
		Setsid:       true, // an interrupt from the terminal is for the test, which then ends us
	}
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("making namespaces for host %s: %w", name, err)
	}
	ns := &namespace{name: name, cmd: cmd, life: life}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		_ = life.Close()
		err := cmd.Wait()
		return nil, fmt.Errorf("setting up host %s: %v: %s", name, err, strings.TrimSpace(told.String()))
	}
	if ns.net, err = os.Stat(ns.path()); err != nil {
		return nil, errors.Join(err, ns.close())
	}
	return ns, nil
}

func (ns *namespace) pid() string { return strconv.Itoa(ns.cmd.Process.Pid) }

func (ns *namespace) path() string { return "/proc/" + ns.pid() + "/ns/net" }

// close removes the namespace and everything that runs in it.
func (ns *namespace) close() error {
	_ = ns.life.Close()
	if err := ns.cmd.Wait(); err != nil {
		return fmt.Errorf("nethosts: removing host %s: %w", ns.name, err)
	}
	return nil
}

// batch runs tool (ip or tc) inside the namespace over the lines of commands.
func (ns *namespace) batch(tool string, commands []string) error {
	if len(commands) == 0 {
		return nil
	}
	cmd := exec.Command("nsenter", "-t", ns.pid(), "-n", tool, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s: %w: %s\n%s", tool, ns.name, err, strings.TrimSpace(string(out)),
			strings.Join(commands, "\n"))
	}
	return nil
}

// processes returns handles of all that runs in the namespace but its holder.
// A handle is good for that process only, whatever happens to its number.
func (ns *namespace) processes() ([]*os.Process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []*os.Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == ns.cmd.Process.Pid {
			continue
		}
		if net, err := os.Stat(dir + "/ns/net"); err != nil || !os.SameFile(net, ns.net) {
			continue
		}
		p, err := os.FindProcess(pid) // holds the process by a descriptor, so look again
		if err != nil {
			return all, err
		}
		if net, err := os.Stat(dir + "/ns/net"); err != nil || !os.SameFile(net, ns.net) {
			_ = p.Release()
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// signal sends sig once to every process, and tells how many there were.
func (ns *namespace) signal(sig os.Signal) (int, error) {
	all, err := ns.processes()
	for _, p := range all {
		if e := p.Signal(sig); e != nil && !errors.Is(e, os.ErrProcessDone) {
			err = errors.Join(err, e)
		}
		_ = p.Release()
	}
	return len(all), err
}

// Signal sends sig to every process in host i, as it is found: SIGSTOP and
// SIGCONT stop and continue a host.
func (h *Hosts) Signal(i int, sig os.Signal) error {
	_, err := h.hosts[i].signal(sig)
	return err
}

// Kill kills every process in host i. The host stays, and can be used again.
// Its kernel tells the peers of the connections; Unplug it before for a host
// that vanishes.
func (h *Hosts) Kill(i int) error {
	for end := time.Now().Add(10 * time.Second); ; {
		n, err := h.hosts[i].signal(syscall.SIGKILL)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("nethosts: %d processes on host %s do not die", n, h.names[i])
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Pids returns the ids of the processes that run in host i.
func (h *Hosts) Pids(i int) ([]int, error) {
	all, err := h.hosts[i].processes()
	var pids []int
	for _, p := range all {
		pids = append(pids, p.Pid)
		_ = p.Release()
	}
	return pids, err
}
