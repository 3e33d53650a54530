//go:build linux

package wire

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// The first line that an agent writes, and the first that it reads, begin with these words; the version of treerun
// follows.
const (
	AgentWord    = "treerun-agent:"
	LauncherWord = "treerun-launcher:"
)

// maxPreamble is the maximum number of bytes before the first line: the output of a shell's start-up files.
const maxPreamble = 64 << 10

// Version returns a string without spaces that differs between builds of treerun. Where the go command has noted no
// commit, or files that were not committed, the string contains the build id, which the linker has noted: a hash of all
// inputs of the executable. A checksum of the whole file takes some 20 ms, on every host.
var Version = sync.OnceValue(func() string {
	text := cmdline.BuildVersion()
	if !strings.Contains(text, "(devel)") && !strings.Contains(text, "dirty") {
		return text
	}
	id, err := buildID()
	if err != nil {
		return text // such builds are taken for the same
	}
	sum := sha256.Sum256([]byte(id))
	return text + "+build-" + hex.EncodeToString(sum[:6])
})

// buildID returns the note that the Go linker leaves in an executable.
func buildID() (string, error) {
	f, err := elf.Open(Self)
	if err != nil {
		return "", err
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil || note.Size == 0 || note.Size > 1<<10 {
		return "", errors.New("no build id")
	}
	b, err := note.Data()
	return string(b), err
}

// Self is this executable, even where its file is gone.
const Self = "/proc/self/exe"

// Checksum returns the SHA-256 checksum of a file.
func Checksum(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checksum of a program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("checksum of a program: %w", err)
	}
	return h.Sum(nil), nil
}

// Hello returns the first line of an agent, or of a launcher.
func Hello(word string) []byte { return []byte(word + " " + Version() + "\n") }

// ErrNoHello is the error of ReadHello for data that is not treerun's.
var ErrNoHello = errors.New("the answer is not from treerun")

// ReadHello reads the first line of the other side, an agent or a launcher, and skips the data before that of an agent.
// It returns the version in that line. Without such a line, the error is the reader's or ErrNoHello, and noise is the
// data that was read instead.
func ReadHello(r *bufio.Reader, word string) (version string, noise []byte, err error) {
	for len(noise) <= maxPreamble {
		line, err := r.ReadSlice('\n') // or the contents of a full buffer
		if at := bytes.Index(line, []byte(word)); at >= 0 && err == nil {
			if fields := strings.Fields(string(line[at:])); len(fields) == 2 && fields[0] == word {
				return fields[1], noise, nil
			}
			break
		}
		switch noise = append(noise, line...); {
		case err == io.EOF && len(line) > 0:
			return "", noise, io.ErrUnexpectedEOF
		case err != nil && err != bufio.ErrBufferFull:
			return "", noise, err
		}
		// A launcher sends nothing before; an echo only repeats our own line.
		if word == LauncherWord || bytes.Contains(line, []byte(LauncherWord)) {
			break
		}
	}
	return "", noise, ErrNoHello
}
