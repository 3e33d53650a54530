//go:build linux

// Fakegpu makes a fake GPU host for scripts/fake-gpu.sh, which documents its purpose: it builds the libraries, fills
// the folder and prints the variables of the environment, one a line.
//
//	go run ./scripts/fakegpu GRAPH
package main

import (
	"fmt"
	"os"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fakegpu GRAPH")
		os.Exit(64)
	}
	graph := os.Args[1]
	h, err := fakegpu.Make(graph)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakegpu:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "fake GPU: %d GPUs of %s, made of this machine's memory and cores\n", h.GPUs(), graph)
	for _, line := range h.Env() {
		fmt.Println(line)
	}
}
