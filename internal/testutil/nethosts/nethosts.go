//go:build linux

// Package nethosts makes hosts out of network namespaces, for tests and for scripts: each has its own network devices,
// hostname, System V IPC and /dev/shm, so that programs take each for a separate machine; process ids, cores and files
// are those of the real machine. Links may be shaped, cut and split.
//
// The hosts have no names outside: several sets may exist at once, the machine's own devices and routes do not change,
// and all hosts vanish with the process that made them, regardless of how it ends, even by SIGKILL. The package does
// not depend on treerun. It needs root and Debian's iproute2 and util-linux, and only tests and scripts import it.
//
// A shaped link passes bursts below 32 KiB, or below 500 µs of its rate, at full speed, and adds no delay: small
// messages are not affected by its rate.
package nethosts

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Options describes the hosts. The zero value is one unshaped switch.
type Options struct {
	// Prefix is the prefix of the hostnames, which are Prefix0, Prefix1, ...; "h" if empty.
	Prefix string
	// Networks holds the switches and meshes between the hosts; one switch if nil.
	Networks []Network
}

// Network is one switch, or one mesh of direct links. In network k, host i has the address
// 10.77.k.(i+1), and on a switch fd77:k::(i+1).
type Network struct {
	// Rates holds the rates of the hosts on this switch, in each direction: one for all, or one per host, such as
	// "500mbit" or "437.5mbit"; "-" is unshaped. Without rates no host is shaped.
	Rates []string
	// Mesh makes this network a mesh: Mesh[i][j] is the rate from host i to host j; "-" is unshaped, "0" is no link, and
	// the diagonal is ignored. The link to host j is device "to<j>", with its own address; packets for host j's address
	// are routed over it. A host's own address is on a device without a link.
	Mesh [][]string
}

// Hosts is a set of running hosts. Its methods may be called concurrently, except Close.
type Hosts struct {
	names    []string
	networks []Network
	dir      string // scripts, accessible only to this process's user
	hosts    []*namespace
	middle   *namespace // namespace of the switches

	mu    sync.Mutex
	parts map[int]int // number of groups that a switch has bridges for
}

// Up makes n hosts, which are removed when the test ends. It skips the test on machines where namespaces cannot be
// made.
func Up(t testing.TB, n int, o Options) *Hosts {
	t.Helper()
	testutil.Need(t, testutil.NetNS, Missing())
	h, err := Make(n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Missing returns the reason why this process cannot make hosts, nil if it can.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	for _, tool := range []string{"ip", "tc", "nsenter", "mount", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	ns, err := newNamespace("probe", "", "")
	if err != nil {
		return err
	}
	return ns.close()
}

// Make makes n hosts, at most 250. The caller must Close them.
func Make(n int, o Options) (*Hosts, error) {
	if o.Prefix == "" {
		o.Prefix = "h"
	}
	if len(o.Networks) == 0 {
		o.Networks = []Network{{}}
	}
	h := &Hosts{networks: o.Networks, parts: make(map[int]int)}
	for i := range n {
		h.names = append(h.names, fmt.Sprint(o.Prefix, i))
	}
	if err := h.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("nethosts: %w", err), h.Close())
	}
	return h, nil
}

func (h *Hosts) make() (err error) {
	if h.dir, err = os.MkdirTemp("", "nethosts-"); err != nil {
		return err
	}
	if err := h.writeNames(); err != nil {
		return err
	}
	if h.middle, err = newNamespace("switch", "", h.dir); err != nil {
		return err
	}
	for _, name := range h.names {
		ns, err := newNamespace(name, filepath.Join(h.dir, "hosts"), "")
		if err != nil {
			return err
		}
		h.hosts = append(h.hosts, ns)
	}
	if err := h.wire(); err != nil {
		return err
	}
	return h.writeScripts()
}

// Close kills all processes in the hosts and removes the hosts. A second call has no effect.
func (h *Hosts) Close() error {
	var all []error
	for _, ns := range append(h.hosts, h.middle) {
		if ns != nil {
			all = append(all, ns.close())
		}
	}
	h.hosts, h.middle = nil, nil
	if h.dir != "" {
		all = append(all, os.RemoveAll(h.dir))
	}
	h.dir = ""
	return errors.Join(all...)
}

// Len returns the number of hosts.
func (h *Hosts) Len() int { return len(h.names) }

// Name returns the hostname of host i, which every host can resolve to its addresses in network 0.
func (h *Hosts) Name(i int) string { return h.names[i] }

// Slots returns all hosts, with this number of ranks each, in the form that all launchers accept.
func (h *Hosts) Slots(each int) string {
	var all []string
	for _, name := range h.names {
		all = append(all, fmt.Sprintf("%s:%d", name, each))
	}
	return strings.Join(all, ",")
}

// Addr returns the IPv4 address of host i in network 0.
func (h *Hosts) Addr(i int) netip.Addr { return h.AddrIn(0, i) }

// AddrIn returns the IPv4 address of host i in network k.
func (h *Hosts) AddrIn(k, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(k), byte(i + 1)})
}

// Addr6In returns the IPv6 address of host i in network k.
func (h *Hosts) Addr6In(k, i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 3: byte(k), 15: byte(i + 1)})
}

// Command returns a command that runs name inside host i, under the command's own process id: signals to it reach the
// program itself. Its child processes are in the host, too. The folder is the command's, as without hosts.
func (h *Hosts) Command(i int, name string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{h.Enter(), h.names[i], name}, args...)...)
}

// Enter returns the path of a program with the effect of Command: ENTER HOST PROGRAM ARGUMENT...; HOST is a name or an
// address.
func (h *Hosts) Enter() string { return filepath.Join(h.dir, "enter") }

// Agent returns a template of a launch agent, as in `treerun --launch-agent`: "sh PATH {host}". The words after it are
// the command, unchanged; HOST may be a name, an address, or USER@HOST.
func (h *Hosts) Agent() string { return "sh " + h.Enter() + " {host}" }

// Shell returns the path of a program in the form of ssh, SHELL HOST WORD...: it passes the words, joined by spaces, to
// a shell inside the host. Launchers of other MPI implementations use it in place of ssh.
func (h *Hosts) Shell() string { return filepath.Join(h.dir, "shell") }
