package bench

import (
	"fmt"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
)

const helpText = `treerun bench measures collectives with N ranks, and prints the table of
nccl-tests.

usage:
  treerun bench [-np N] [--collective allreduce] [-b 8] [-e 256M] [flags]

flags:
%s
time is in us, the median over iterations, each as long as on its slowest rank
and from its own exit of a barrier on. algbw is size per time in GB/s (1e9
bytes), busbw algbw times the factor of nccl-tests: 2(n-1)/n for allreduce,
(n-1)/n where a rank has one part of n, else 1. #wrong counts the elements, over
all ranks, that are not what they should be: every element of one more call is
compared, with numbers for which every order of additions gives the same.

limit is the share that a row reaches of the least time that any implementation
could need here: the bytes that a rank must read and write on the average, over
the rate at which all ranks together copy messages of that size, which bench
measures, and the latency of the quickest link; between hosts also the message
over the most that the measured network allows. A rank must

%s
All ranks must have the memory of two messages of the largest size each.

--graph plans for declared links, --algorithm runs what an algorithm offers by it, and
--plan runs the calls of one collective and root by a plan that treerun plan --format json
has written; one that served no call gives exit code 64. JSON rows have algorithm and
digest of the plan that ran, as treerun plan prints them.

--explain measures every shape of plan in turns, and shows which one a job takes,
and by what. It takes -np, --collective, -n, -w, --max-seconds (of all shapes, 1)
and all that says on which hosts the ranks are and how they reach each other.

exit code 1: elements were wrong; 64: wrong usage; else as of any job.

examples:
  treerun bench -np 2
  treerun bench -np 4 --collective all -b 8 -e 64M -f 8 --json rows.json --plot rows.svg
  treerun bench -np 4 --explain 64K --collective allreduce,broadcast
  treerun bench -H a,b,c,d --explain 2M --collective broadcast
  treerun bench -np 8 --collective broadcast --in-place -b 1M -e 1M -i 200 --stream
`

func printHelp(o *meter.Options) error {
	limits := ""
	for _, c := range meter.Collectives {
		if !c.Empty {
			limits += fmt.Sprintf("  %-14s read %s, write %s", c.Name, c.Least.Read, c.Least.Written)
			if in := c.LeastInPlace; in != (meter.Moves{}) {
				limits += fmt.Sprintf("; in place read %s, write %s", in.Read, in.Written)
			}
			limits += "\n"
		}
	}
	_, err := fmt.Printf(helpText, o.Flags.FlagUsages(), limits)
	return err
}
