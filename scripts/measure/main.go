// Command measure is a rank of jobs that measure calls, for scripts of this folder. Its first argument is the kind of
// the measurement, whose function documents the others, the results, and the script.
//
//	treerun -np 2 measure calls SECONDS [NAME...]
//	treerun -np 2 measure overlap BYTES ITERATIONS
//	treerun -np 2 measure overlap BYTES ITERATIONS sleep|compute LAYERS BUCKET...
//	treerun -np 2 measure trace [observe] SECONDS SIZE...
//	measure readers HOST:PORT
package main

import (
	"context"
	"log"
	"os"
)

var ctx = context.Background()

// kinds has the measurements, and the least number of their arguments.
var kinds = map[string]struct {
	measure func(args []string)
	args    int
}{"calls": {calls, 1}, "overlap": {overlap, 2}, "trace": {trace, 2}, "readers": {readers, 1}}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("want a kind: see scripts/measure/main.go")
	}
	k, known := kinds[os.Args[1]]
	if !known || len(os.Args)-2 < k.args {
		log.Fatalf("%q is no kind with its arguments: see scripts/measure/main.go", os.Args[1:])
	}
	k.measure(os.Args[2:])
}

// An error ends the job.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
