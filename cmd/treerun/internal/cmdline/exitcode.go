package cmdline

import (
	"errors"
	"fmt"
	"syscall"
)

// The exit codes of treerun's own failures. Otherwise it exits with 0, or with the code of the
// first rank that failed.
const (
	ExitUsage         = 64  // wrong command line
	ExitTimeout       = 124 // --timeout ran out
	ExitInternal      = 125 // treerun could not do its own part
	ExitNotExecutable = 126 // PROGRAM exists but cannot be run
	ExitNotFound      = 127 // PROGRAM does not exist
)

// SignalCode returns the exit code for an end by signal s, as in shells.
func SignalCode(s syscall.Signal) int { return 128 + int(s) }

// Error is an error with an exit code.
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

// Usagef makes the Error of a wrong command line, as fmt.Errorf does.
func Usagef(format string, args ...any) error { return Errorf(ExitUsage, format, args...) }

// ExitCode returns the exit code for err: the one it carries, else ExitInternal, and 0
// for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e := new(Error); errors.As(err, &e) {
		return e.Code
	}
	return ExitInternal
}

// Cause returns the innermost error of err, without the text of those around it, which would
// repeat a path.
func Cause(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
