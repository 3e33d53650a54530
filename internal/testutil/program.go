package testutil

import (
	"fmt"
	"os/exec"
)

// Build puts the program of a package of the module into a file. It has go run build it, which keeps what it
// has linked in the build cache: go build links anew for every test that asks.
func Build(pkg, file string) error {
	out, err := exec.Command("go", "run", "-buildvcs=false", "-exec", "cp", pkg, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
