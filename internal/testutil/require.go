package testutil

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable is the name of the environment variable that lists the features that the machine must have.
const Variable = "TREERUN_REQUIRE"

// Feature is a property that not every machine has.
type Feature string

// The features that tests of this repository need.
const (
	Proc     Feature = "proc"     // the proc file system, with the net folder
	Memory   Feature = "memory"   // the system reports the amount of free memory
	Terminal Feature = "terminal" // pseudo terminals
	Bash     Feature = "bash"     // the shell, at /bin/bash
	Network  Feature = "network"  // an address other than the loopback's
	IPv6     Feature = "ipv6"     // the loopback address ::1
	NetNS    Feature = "netns"    // network namespaces can be made
	SSHD     Feature = "sshd"     // OpenSSH's client and server
	Slurm    Feature = "slurm"    // Slurm's daemons and commands, and munge
	Peers    Feature = "peers"    // the MPI implementations to compare with
	GPU      Feature = "gpu"      // an NVIDIA GPU with its driver
	Root     Feature = "root"     // the tests run as root
	Strace   Feature = "strace"   // strace, which makes system calls fail
	// Compilers of C and C++, which make the fake GPU's libraries.
	Compilers Feature = "compilers"
	// Modules that only an example needs, which has its own go.mod.
	Modules  Feature = "modules"
	Groups   Feature = "groups"   // control groups that limit memory can be made
	NoExec   Feature = "noexec"   // PID namespaces can be made, and have vm.memfd_noexec
	Cores    Feature = "cores"    // two cores or more
	Protoc   Feature = "protoc"   // the compiler of protocol buffers
	Chromium Feature = "chromium" // Debian's headless browser
	Wine     Feature = "wine"     // Debian's wine64, which runs programs for Windows
	Delve    Feature = "dlv"      // the debugger of Go
	// GridEngine is Debian's Grid Engine: master, execution daemon and commands.
	GridEngine Feature = "gridengine"
)

var features = []Feature{Proc, Memory, Terminal, Bash, Network, IPv6, NetNS, SSHD, Slurm, Peers, GPU, Root, Strace,
	Compilers, Modules, Groups, NoExec, Cores, Protoc, Chromium, Delve, GridEngine, Wine}

// Need returns if missing is nil. Otherwise the machine lacks the feature, with missing as the reason: the test is
// skipped, or fails if the machine must have the feature.
func Need(t testing.TB, f Feature, missing error) {
	t.Helper()
	if missing == nil {
		return
	}
	required, err := parse(os.Getenv(Variable))
	switch {
	case err != nil:
		t.Fatal(err)
	case slices.Contains(required, f):
		t.Fatalf("this machine must have %q according to %s, and does not: %v", f, Variable, missing)
	default:
		t.Skipf("this machine has no %q: %v", f, missing)
	}
}

// parse parses a list of features. A name that no test uses would have no effect, so it is an error.
func parse(list string) ([]Feature, error) {
	var all []Feature
	for name := range strings.SplitSeq(list, ",") {
		f := Feature(strings.TrimSpace(name))
		switch {
		case f == "":
		case slices.Contains(features, f):
			all = append(all, f)
		default:
			return nil, fmt.Errorf("%s=%s: %q is not a feature, want some of %q", Variable, list, f, features)
		}
	}
	return all, nil
}

// NotUnderRace skips a test under the race detector, unless all rounds are requested: it takes time and would show
// nothing that other tests do not, for the reason given.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if Race && !Thorough() {
		t.Skipf("not under the race detector: %s", why)
	}
}

// Long skips a test or a benchmark that takes long with -short, which a build that has less to show gets, for the
// reason given.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not with -short: %s", why)
	}
}
