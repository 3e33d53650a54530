package testutil

import (
	"fmt"
	"os/exec"
)

// Build builds the program of a package of the module into a file. It uses go run, which keeps the linked program in
// the build cache: go build links again for every test that calls it.
func Build(pkg, file string) error {
	out, err := exec.Command("go", "run", "-buildvcs=false", "-exec", "cp", pkg, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
