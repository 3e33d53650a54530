package program

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a small process that removes a folder when this one dies without
// having done so, as by SIGKILL.
type guard struct {
	cmd  *exec.Cmd
	life io.WriteCloser // its end of file tells the guard that we are gone
}

// guardScript tries for some seconds: what the go command has started may
// still write into the folder.
const guardScript = `read -r _; i=0; until rm -rf "$0" || [ $((i += 1)) -gt 50 ]; do sleep 0.1; done`

func newGuard(folder string) (*guard, error) {
	cmd := exec.Command("sh", "-c", guardScript, folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of our terminal are not for it
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", folder, err)
	}
	if err := cmd.Start(); err != nil {
		_ = life.Close()
		return nil, fmt.Errorf("guard %s: %w", folder, err)
	}
	return &guard{cmd, life}, nil
}

// dismiss ends the guard once there is nothing to remove.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill() // fails only where it has ended
	_ = g.cmd.Wait()         // its state does not matter; this closes life
}
