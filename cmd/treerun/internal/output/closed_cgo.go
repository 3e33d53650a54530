//go:build cgo

package output

// #include <fcntl.h>
//
// static int stdout_closed;
//
// // The Go runtime opens /dev/null in place of a closed descriptor before any Go
// // code runs, and nothing tells that one from a /dev/null that was given to us.
// __attribute__((constructor)) static void look_at_stdout(void) {
// 	stdout_closed = fcntl(1, F_GETFD) == -1;
// }
//
// static int treerun_stdout_closed(void) { return stdout_closed; }
import "C"

// Closed reports whether this process was started with its standard output closed:
// what it writes there is lost, without an error.
func Closed() bool { return C.treerun_stdout_closed() != 0 }
