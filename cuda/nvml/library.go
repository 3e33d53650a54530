package nvml

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// library is NVML, or a test's substitute: functions that are called by their names. A function writes its result into
// the output buffer, whose address is among its arguments.
type library struct {
	call  func(name string, args ...uintptr) result
	why   func(ret result) string // in NVML's words
	reply []byte
	at    uintptr // the address of that buffer
}

// result is the return value of a function of NVML, an nvmlReturn_t.
type result int

// The results that are handled individually, as nvml.h has them.
const (
	success          result = 0
	invalidArgument  result = 2
	noPermission     result = 4
	driverNotLoaded  result = 9
	libraryNotFound  result = 12
	functionNotFound result = 13
	versionMismatch  result = 18
)

// textSize is the longest text that nvml.h names.
const textSize = 96

// number calls a function that returns a number.
func (l *library) number(name string, args ...uintptr) (int, result) {
	clear(l.reply)
	ret := l.call(name, args...)
	return int(int32(binary.NativeEndian.Uint32(l.reply))), ret
}

// text calls a function that returns a text.
func (l *library) text(name string, args ...uintptr) (string, result) {
	_, ret := l.number(name, args...)
	return text(l.reply[:textSize]), ret
}

// pci calls a function that returns a PCI device, an nvmlPciInfo_t; it returns the address as Linux writes it.
func (l *library) pci(name string, args ...uintptr) (string, result) {
	_, ret := l.number(name, args...)
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(l.reply[at:]) }
	if address := text(l.reply[36:68]); address != "" {
		return address, ret
	}
	return fmt.Sprintf("%04x:%02x:%02x.0", word(16), word(20), word(24)), ret
}

// set calls a function that returns a set of numbers below n, as bits.
func (l *library) set(n int, name string, args ...uintptr) (list []int, ret result) {
	_, ret = l.number(name, args...)
	for i := range n {
		if binary.NativeEndian.Uint64(l.reply[i/64*8:])>>(i%64)&1 != 0 {
			list = append(list, i)
		}
	}
	return list, ret
}

// text returns the text in a C array, up to its zero.
func text(array []byte) string {
	before, _, _ := bytes.Cut(array, []byte{0})
	return string(before)
}
