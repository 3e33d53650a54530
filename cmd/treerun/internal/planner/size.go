package planner

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes on the command line: K, M and G are powers of 1024.
type size int64

const maxSize = 1 << 44 // 16 TiB: sums of a few stay exact in a float64

// Set reads a size.
func (s *size) Set(text string) error {
	number, unit := text, 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMG", text[n-1]&^0x20); i >= 0 {
			number, unit = text[:n-1], math.Ldexp(1, 10*(i+1))
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= unit; err != nil || !(v >= 1 && v <= maxSize) || v != math.Trunc(v) {
		return errors.New("want a size from 1 byte to 16384G, as 8, 64K, 256M or 1G")
	}
	*s = size(v)
	return nil
}

// Type names the kind of value in the help.
func (s *size) Type() string { return "SIZE" }

// String writes a size as Set reads it, in the largest unit that needs no
// fraction.
func (s *size) String() string { return bytesText(int64(*s)) }

func bytesText(n int64) string {
	unit := ""
	for _, u := range []string{"K", "M", "G"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// about writes a size for people that came out of a division.
func about(bytes float64) string {
	unit := "B"
	for _, u := range []string{"K", "M", "G"} {
		if bytes < 1024 {
			break
		}
		bytes, unit = bytes/1024, u
	}
	if unit == "B" {
		return strconv.FormatFloat(math.Ceil(bytes), 'f', 0, 64) + " B"
	}
	return strconv.FormatFloat(bytes, 'f', 1, 64) + unit
}
