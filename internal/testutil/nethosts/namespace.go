//go:build linux

package nethosts

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// holder is the script of the process that keeps a namespace: it sets up the host, waits for the end of its input,
// which also comes when this process dies, kills all processes in its network namespace, and ends.
//
//go:embed holder.sh
var holder string

// namespace is one host, or the switches.
type namespace struct {
	name string
	cmd  *exec.Cmd
	life io.WriteCloser
}

// newNamespace makes the namespaces of a host with the given hostname. If not empty, the file names becomes its
// /etc/hosts, and the folder dir is removed with it.
func newNamespace(name, names, dir string) (*namespace, error) {
	cmd := exec.Command("sh", "-c", holder, "nethosts-"+name, name, names, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS,
		Setsid:       true, // an interrupt from the terminal is for the test, which then ends this process
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
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
		return nil, fmt.Errorf("setting up host %s: %v: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return ns, nil
}

func (ns *namespace) pid() string { return strconv.Itoa(ns.cmd.Process.Pid) }

// close removes the namespace and kills all processes in it.
func (ns *namespace) close() error {
	_ = ns.life.Close()
	if err := ns.cmd.Wait(); err != nil {
		return fmt.Errorf("nethosts: removing host %s: %w", ns.name, err)
	}
	return nil
}

// batch runs tool (ip or tc) inside the namespace on the lines of commands.
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

// listed is a script that lists the processes in its network namespace except itself.
const listed = `for p in /proc/[0-9]*; do
if [ "$p/ns/net" -ef "/proc/$$/ns/net" ] && [ "$p" != "/proc/$$" ]; then echo "${p#/proc/}"; fi; done`

// Pids returns the ids of the processes that run in host i, except for the one that holds its namespace.
func (h *Hosts) Pids(i int) (pids []int, err error) {
	out, err := h.Command(i, "sh", "-c", listed).Output()
	for word := range strings.FieldsSeq(string(out)) {
		if pid, _ := strconv.Atoi(word); pid > 0 && pid != h.hosts[i].cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Signal sends sig to every process that it finds in host i: SIGSTOP and SIGCONT stop and continue a host.
func (h *Hosts) Signal(i int, sig syscall.Signal) error {
	pids, err := h.Pids(i)
	for _, pid := range pids {
		if e := syscall.Kill(pid, sig); e != syscall.ESRCH { // it has ended in the meantime
			err = errors.Join(err, e)
		}
	}
	return err
}

// Kill kills every process in host i. The host stays, and can be used again. Its kernel closes the connections to the
// peers; to simulate a host that vanishes, Unplug it first.
func (h *Hosts) Kill(i int) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if pids, err := h.Pids(i); err != nil || len(pids) == 0 {
			return err
		}
		if err := h.Signal(i, syscall.SIGKILL); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("nethosts: processes on host %s do not die", h.names[i])
		}
	}
}
