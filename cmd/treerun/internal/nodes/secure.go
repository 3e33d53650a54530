package nodes

import (
	"errors"
	"fmt"
	"io"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

// errKey is the error for a peer that does not know the key.
var errKey = errors.New("it does not have the key of this job: another key file, or another job id")

// secure returns what both sides of a connection prove themselves with.
func secure(key []byte, jobID string) (*netconn.Session, error) {
	derived, err := netconn.DeriveKey(key, jobID, "treerun nodes")
	if err != nil {
		return nil, fmt.Errorf("derive the key of the job: %w", err)
	}
	s := netconn.NewSession(derived, nil)
	return s, s.Encrypt()
}

// keyError says what netconn.ErrKey means here.
func keyError(err error) error {
	if errors.Is(err, netconn.ErrKey) {
		return errKey
	}
	return err
}

func write(w io.Writer, b wire.Body) error {
	f, err := wire.Encode(0, b)
	if err == nil {
		_, err = w.Write(f.Append(nil))
	}
	return err
}

func read(r io.Reader) (wire.Body, error) {
	f, err := wire.Read(r)
	if err != nil {
		return nil, err
	}
	return f.Decode()
}
