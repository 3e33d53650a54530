//go:build cgo && linux

package main

// The Go runtime opens /dev/null in place of a closed standard descriptor. A constructor runs before that.

/*
#include <fcntl.h>

static int closed;

__attribute__((constructor)) static void look(void) { closed = fcntl(1, F_GETFD) < 0; }

static int stdout_closed(void) { return closed; }
*/
import "C"

func init() { stdoutClosed = C.stdout_closed() != 0 }
