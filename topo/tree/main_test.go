package tree

import (
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // searches leave much behind
	m.Run()
}
