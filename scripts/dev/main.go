// Dev does what developers of treerun do now and then:
//
//	go run ./scripts/dev ptx [--check] FOLDER...   make the PTX of the CUDA sources there
//	go run ./scripts/dev third-party [--check]     write THIRD-PARTY, which names what is linked in
//	go run ./scripts/dev fake-gpu GRAPH            make a fake GPU host: see scripts/fake-gpu.sh
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

func main() {
	tools := map[string]func(args []string) error{"ptx": compilePTX, "third-party": thirdParty, "fake-gpu": fakeGPU}
	tool := func([]string) error { return errors.New("usage: dev ptx | third-party | fake-gpu") }
	if len(os.Args) > 1 && tools[os.Args[1]] != nil {
		tool = tools[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if err := tool(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

// fakeGPU makes a fake GPU host for scripts/fake-gpu.sh, which says what it is for: it builds the
// libraries, fills the folder and prints the variables of the environment, one a line.
func fakeGPU(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: dev fake-gpu GRAPH")
	}
	h, err := fakegpu.Make(fakegpu.Options{Graph: args[0]})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "fake GPU: %d GPUs of %s, made of this machine's memory and cores\n", h.GPUs(), args[0])
	for _, line := range h.Env() {
		fmt.Println(line)
	}
	return nil
}
