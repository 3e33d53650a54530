// Package testutil provides helpers for tests of several packages. Need skips a test for which the machine lacks a
// feature, unless TREERUN_REQUIRE forbids that; NotUnderRace and Long leave a test out; WithLonger tries longer limits
// on a busy machine; Thorough reports whether TREERUN_ROUNDS requests all rounds of long tests, and Computing prepares
// packages with long computations; Build builds a program into a file; FreeAddress and FreePorts return addresses of
// the loopback at which no process listens; Hosts and ScatteredHosts make Graphs of several hosts; Proxy disturbs TCP
// connections; Job is a job whose ranks are goroutines of a test, with the Worlds that rank.Init returns to the ranks
// of a real one. Only tests import it.
package testutil
