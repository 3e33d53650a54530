//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// The tests run the real launcher: the test binary under the name treerun.
// "member" is a rank that implements the control protocol without package rank, so
// that the launcher is tested by itself; "stopper" is one that stops itself, and "soak"
// one that makes many calls; "intruder" is no rank at all; most ranks are plain shell.
func TestMain(m *testing.M) {
	if err := os.Setenv("GORACE", raceOptions); err != nil {
		panic(err) // the name and the value are fine
	}
	testscript.Main(processTests{m}, map[string]func(){
		"treerun": main, "exe": main, "member": runMember, "stopper": stopper, "soak": soaker,
		"intruder": runIntruder, "looper": looper, "dying": runDying,
		"restorer": restorer, "changer": changer, "reducer": reducer,
		"hostkiller": hostkiller, "hanger": hanger, "frozen": frozen, "joiner": joiner,
		"returner": returner, "lives": runLives, "faller": faller, "tracer": tracer, "scraper": scraper,
	})
}

// raceOptions are for a treerun with the race detector, which otherwise sleeps
// for a second at its end.
const raceOptions = "atexit_sleep_ms=0"

// TestScripts runs the scenarios in testdata/script. They read as prose. In addition to
// the usual commands of testscript there are
//
//	exits CODE COMMAND...  runs a command that exits with this code
//	nothing-left           no file is left in TMPDIR
func TestScripts(t *testing.T) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Split(string(out), "\n")
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOCACHE", own[0])
			env.Setenv("GOMODCACHE", own[1])
			env.Setenv("REPO", repository)
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOTOOLCHAIN", "local")
			env.Setenv("GOFLAGS", own[2]+" -mod=mod -ldflags=-w")
			env.Setenv("GORACE", raceOptions)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":        exits,
			"nothing-left": nothingLeftInTMPDIR,
		},
		RequireExplicitExec: true,
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e := new(exec.ExitError)
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func nothingLeftInTMPDIR(ts *testscript.TestScript, neg bool, args []string) {
	left, err := os.ReadDir(ts.Getenv("TMPDIR"))
	ts.Check(err)
	if len(left) > 0 {
		ts.Fatalf("left in TMPDIR: %v", left)
	}
}

// runMember executes the actions that its arguments name, in turn.
func runMember() {
	if err := memberActions(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(99)
	}
}

func memberActions(args []string) error {
	var control *os.File
	for len(args) > 0 {
		word := args[0]
		value := ""
		if len(args) > 1 {
			value = args[1]
		}
		args = args[1:]
		switch word {
		case "init": // reads the job file and shows its content
			fd, err := strconv.Atoi(os.Getenv(job.EnvFD))
			if err != nil {
				return err
			}
			f, err := job.ReadFile(os.NewFile(uintptr(fd), "job file"))
			if err != nil {
				return err
			}
			control = os.NewFile(uintptr(f.ControlFD), "control socket")
			fmt.Printf("rank %d of %d, local %d of %d, secret of %d bytes, settings %v\n", f.Rank, f.Size, f.LocalRank,
				f.LocalSize, len(f.Secret), f.Settings)
		case "seed", "joined", "closing", "harmed": // reports to the launcher
			m := &job.Message{Kind: map[string]job.MessageKind{"seed": job.Seed, "joined": job.Joined,
				"closing": job.Closing, "harmed": job.Exited}[word]}
			if word == "seed" {
				m.Addrs, args = []netip.AddrPort{netip.MustParseAddrPort(value)}, args[1:]
			}
			if err := job.WriteMessage(control, m); err != nil {
				return err
			}
		case "failed": // reports a failure that no call has returned
			if err := job.WriteMessage(control, &job.Message{Kind: job.Failed, Text: value}); err != nil {
				return err
			}
			args = args[1:]
		case "hear": // shows the next message of the launcher
			m, err := job.ReadMessage(control)
			if err != nil {
				return err
			}
			fmt.Printf("heard: exited=%v rank=%d code=%d signal=%d closed=%v %s%v\n", m.Kind == job.Exited, m.Rank, m.Code,
				m.Signal, m.Closed, m.Text, strings.Trim(fmt.Sprint(m.Addrs), "[]"))
		case "garbage": // sends bytes that are no message
			if _, err := control.WriteString("\xff\xff\xff\xffnonsense"); err != nil {
				return err
			}
		case "descriptors":
			printInherited()
		case "create": // an empty file
			if err := os.WriteFile(value, nil, 0o600); err != nil {
				return err
			}
			args = args[1:]
		case "sleep":
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			time.Sleep(d)
			args = args[1:]
		case "kill": // itself
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			return syscall.Kill(os.Getpid(), syscall.Signal(n))
		case "exit":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			os.Exit(n)
		default:
			return fmt.Errorf("what is %q?", word)
		}
	}
	return nil
}

// printInherited prints the descriptors that the process inherited: Go opens its own close-on-exec.
func printInherited() {
	line := "" // printed whole: treerun passes on the parts of a line that takes long
	for fd := range 1024 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			line += fmt.Sprint(fd, " ")
		}
	}
	fmt.Println(line)
}
