package plan

import (
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // plans leave much behind
	m.Run()
}
