//go:build linux

package stacks

import (
	"debug/dwarf"
	"debug/elf"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestLayout compares the offsets with the debugging information of programs that this version of Go has built.
func TestLayout(t *testing.T) {
	t.Run("this machine", func(t *testing.T) { testLayout(t, "pure") })
	if testutil.Thorough() {
		t.Run("arm64", func(t *testing.T) { testLayout(t, "arm64") })
	}
}

func testLayout(t *testing.T, build string) {
	layout, ok := layouts[version.Lang(runtime.Version())]
	if !ok {
		t.Fatalf("layouts has no entry for %s", runtime.Version())
	}
	want := map[string]map[string]int64{
		"runtime.g": {"stack": gStackLo, "m": gM, "sched": gSchedSP, "syscallsp": gSyscallSP, "syscallpc": gSyscallPC,
			"atomicstatus": gStatus, "goid": gID, "waitreason": gWaitReason, "trackingSeq": gSequence,
			"startpc": gStartPC},
		"runtime.m":          {"g0": mG0, "procid": mProcID, "vdsoSP": mVDSOSP, "vdsoPC": mVDSOPC},
		"runtime.gobuf":      {"sp": 0, "pc": gSchedPC - gSchedSP, "g": gSchedG - gSchedSP, "lr": gSchedLR - gSchedSP},
		"runtime.stack":      {"lo": 0, "hi": gStackHi},
		"runtime.moduledata": {"text": moduleText, "gofunc": int64(layout.gofunc)},
	}
	object, err := elf.Open(built(t, build))
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	info, err := object.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	for r := info.Reader(); len(want) > 0; {
		entry, err := r.Next()
		if err != nil || entry == nil {
			t.Fatalf("no debugging information of %v (%v)", want, err)
		}
		name, _ := entry.Val(dwarf.AttrName).(string)
		fields, ok := want[name]
		if entry.Tag != dwarf.TagStructType || !ok {
			continue
		}
		delete(want, name)
		typ, err := info.Type(entry.Offset)
		if err != nil {
			t.Fatal(err)
		}
		for field, offset := range fields {
			all := typ.(*dwarf.StructType).Field
			if i := slices.IndexFunc(all, func(f *dwarf.StructField) bool { return f.Name == field }); i < 0 ||
				all[i].ByteOffset != offset {
				t.Errorf("%s.%s is not at %d: %v", name, field, offset, typ)
			}
		}
	}
}

// TestReasons compares the reasons of waits with those in the source of the runtime.
func TestReasons(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "runtime", "runtime2.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\twaitReason\w+ .*// "(.*)"$`).FindAllSubmatch(source, -1) {
		got = append(got, string(m[1]))
	}
	if !slices.Equal(got, reasons) {
		t.Errorf("the runtime has %q", got)
	}
}
