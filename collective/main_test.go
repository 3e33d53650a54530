package collective

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestMain runs a rank of a modelWorld in place of the tests, in a process that is one. Garbage of tests is collected
// less often than by default, which took a tenth of their time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	fields := strings.Fields(os.Getenv(envModelRank))
	if len(fields) != 3 {
		testutil.FewerChecks()
		testutil.Waiting()
		os.Exit(m.Run())
	}
	w := &pipeWorld{job: fields[2], in: bufio.NewReaderSize(os.Stdin, 1<<20), failed: make(chan struct{})}
	w.rank, _ = strconv.Atoi(fields[0])
	w.size, _ = strconv.Atoi(fields[1])
	go w.hearOfLoss()
	if err := w.serve(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "rank %d: %v\n", w.rank, err)
		os.Exit(1)
	}
	os.Exit(0)
}
