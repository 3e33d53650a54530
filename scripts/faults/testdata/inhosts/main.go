// Command inhosts makes hosts of network namespaces, runs a command next to them and removes them: inhosts N COMMAND
// ARG... The command's environment has AGENT and ENTER, as nethosts.Hosts returns them, and the hosts' names H0, H1,
// ... and addresses A0, A1, ... It exits with the command's exit code.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "inhosts:", err)
		code := 1
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
			code = max(code, ended.ExitCode())
		}
		os.Exit(code)
	}
}

func run() (err error) {
	if len(os.Args) < 3 {
		return errors.New("usage: inhosts N COMMAND ARG...")
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	h, err := nethosts.Make(n, nethosts.Options{Prefix: "f"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	c := exec.Command(os.Args[2], os.Args[3:]...)
	c.Env = append(os.Environ(), "AGENT="+h.Agent(), "ENTER="+h.Enter())
	for i := range n {
		c.Env = append(c.Env, fmt.Sprintf("H%d=%s", i, h.Name(i)), fmt.Sprintf("A%d=%s", i, h.Addr(i)))
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c.Run()
}
