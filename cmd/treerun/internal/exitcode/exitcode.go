// Package exitcode holds the exit codes of treerun that scripts rely on, and
// the error that carries one. It decides nothing: who fails chooses the code.
// Only the packages below cmd/treerun import it.
package exitcode

import (
	"errors"
	"fmt"
	"syscall"
)

// The codes that treerun itself gives. Else it gives 0, or the code of the
// first rank that failed.
const (
	Usage         = 64  // wrong command line
	Timeout       = 124 // --timeout ran out
	Internal      = 125 // treerun could not do its own part
	NotExecutable = 126 // PROGRAM is there but cannot be run
	NotFound      = 127 // PROGRAM is not there
)

// Signal returns the code that stands for an end by signal s, as shells do it.
func Signal(s syscall.Signal) int { return 128 + int(s) }

// Error is an error with the exit code that it leads to.
type Error struct {
	Code int
	Err  error
}

// Error returns the text of the error, without the code.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without the code.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error as fmt.Errorf does.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Of returns the exit code for err: the one it carries, else Internal, and 0
// for nil.
func Of(err error) int {
	if err == nil {
		return 0
	}
	if e := new(Error); errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
