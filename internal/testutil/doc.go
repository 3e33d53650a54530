// Package testutil has what tests of several packages need: Need lets a test skip what
// the machine cannot do, and TREERUN_REQUIRE forbid that; WithLonger tries longer
// limits on a busy machine; Thorough says whether TREERUN_ROUNDS asks for all rounds of
// what could go on for long, and Computing readies packages that compute much; Build puts
// a program into a file; FreeAddress and FreePorts give addresses of the loopback at
// which nobody listens; Hosts and ScatteredHosts make Graphs of several hosts; Proxy
// disturbs TCP connections; Job is a job whose ranks are goroutines of a test, with the
// Worlds that rank.Init gives the ranks of a real one. Only tests import it.
package testutil
