package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
)

// openTerminal returns both sides of a new pseudo terminal.
func openTerminal(t *testing.T) (user, tty *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, os.ErrNotExist) {
		testutil.Need(t, testutil.Terminal, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return user, tty
}

// On a terminal, rank 0 hears what the user types although it is in the
// background, ^C stops the job, and progress lines overwrite each other.
func TestTerminal(t *testing.T) {
	user, tty := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-np", "2", "sh", "-c",
		`if [ $RANK = 0 ]; then printf "50%%\r100%%\r"; read answer; echo "heard $answer"; fi; sleep 300`)
	cmd.Args[0] = "treerun"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	killer := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })

	var screen bytes.Buffer
	until := func(text string) {
		t.Helper()
		b := make([]byte, 4096)
		for !strings.Contains(screen.String(), text) {
			n, err := user.Read(b)
			if err != nil {
				t.Fatalf("the terminal shows %q without %q: %v", &screen, text, err)
			}
			screen.Write(b[:n])
		}
	}
	until("100%")
	if _, err := user.WriteString("fine\n"); err != nil {
		t.Fatal(err)
	}
	until("[0] heard fine")
	if want := "[0] 50%\r\x1b[K[0] 100%\r"; !strings.Contains(screen.String(), want) {
		t.Errorf("the terminal shows %q without %q", &screen, want)
	}
	if want := "\x1b[K[0] heard fine\r\n"; !strings.Contains(screen.String(), want) {
		t.Errorf("the progress line was not erased: %q", &screen)
	}
	if _, err := user.WriteString("\x03"); err != nil { // ^C
		t.Fatal(err)
	}
	until("treerun: stopped by SIGINT")
	cmd.Wait() // the state says how it ended
	if !killer.Stop() || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("treerun ended with %v, want exit code 130", cmd.ProcessState)
	}
}
