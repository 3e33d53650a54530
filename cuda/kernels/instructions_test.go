package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// compileOne returns a kernel with the given code, whose parameter is an address.
func compileOne(code string) (*Kernel, error) {
	const head = `
.version 6.0
.target sm_70
.visible .entry try(
	.param .align 8 .b8 try_param_0[8]
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<3>;
	.reg .b16 	%rs<9>;
	.reg .b32 	%r<9>;
	.reg .f32 	%f<9>;
	.reg .f64 	%fd<9>;
	.reg .b64 	%rd<9>;
	ld.param.u64 	%rd1, [try_param_0];
`
	m, err := ParsePTX(head + code + "\n}\n")
	if err != nil {
		return nil, err
	}
	return m.Kernel("try")
}

func try(code string, memory []byte) error {
	k, err := compileOne(code)
	if err != nil {
		return err
	}
	return k.Run(&PTXMemory{4096, memory}, 1, 1, binary.LittleEndian.AppendUint64(nil, 4096))
}

// Each line of code leaves a number in %rd2, %r2 or another register, which is
// then written to memory.
func TestInstructions(t *testing.T) {
	bits32, bits64 := math.Float32bits, math.Float64bits
	for _, c := range []struct {
		code, store string
		want        uint64
	}{
		{"mov.u32 %r1, 7; add.s32 %r2, %r1, -9;", "u32 %r2", 1<<32 - 2},
		{"mov.u64 %rd3, -8; shr.s64 %rd2, %rd3, 1;", "u64 %rd2", 1<<64 - 4},
		{"mov.u64 %rd3, -8; shr.u64 %rd2, %rd3, 60;", "u64 %rd2", 15},
		{"mov.u32 %r1, 1; shl.b32 %r2, %r1, 40;", "u32 %r2", 0},
		{"mov.u16 %rs1, -2; cvt.u32.u16 %r2, %rs1;", "u32 %r2", 65534},
		{"mov.u16 %rs1, -2; mov.u16 %rs2, 1; max.s16 %rs3, %rs1, %rs2;", "u16 %rs3", 1},
		{"mov.u16 %rs1, -2; mov.u16 %rs2, 1; max.u16 %rs3, %rs1, %rs2;", "u16 %rs3", 65534},
		{"mov.u32 %r1, 384; cvt.s8.s32 %rs1, %r1;", "u16 %rs1", 65408},
		{"mov.u32 %r1, 0x1234F678; bfe.s32 %r2, %r1, 12, 4;", "u32 %r2", 1<<32 - 1},
		{"mov.u32 %r1, 0x1234F678; bfe.u32 %r2, %r1, 8, 8;", "u32 %r2", 0xF6},
		{"mov.u32 %r1, -1; mul.wide.u32 %rd2, %r1, 16;", "u64 %rd2", 0xFFFFFFFF0},
		{"mov.u32 %r1, 5; mov.u32 %r2, 6; mov.b64 %rd2, {%r1, %r2};", "u64 %rd2", 6<<32 | 5},
		{"mov.u64 %rd3, 0x600000005; { .reg .b32 tmp; mov.b64 {tmp, %r2}, %rd3; }", "u32 %r2", 6},
		{"mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40400000; div.rn.f32 %f3, %f1, %f2;", "f32 %f3", uint64(bits32(1.0 / 3))},
		{"mov.f64 %fd1, 0dC004000000000000; cvt.rzi.s32.f64 %r2, %fd1;", "u32 %r2", 1<<32 - 2},
		{"mov.u64 %rd3, -3; cvt.rn.f64.s64 %fd2, %rd3;", "f64 %fd2", bits64(-3)},
		{"mov.f32 %f1, 0f477FEFFF; cvt.rn.f16.f32 %rs2, %f1;", "u16 %rs2", 0x7BFF}, // just below 65520
		{"mov.f32 %f1, 0f477FF000; cvt.rn.f16.f32 %rs2, %f1;", "u16 %rs2", 0x7C00},
		{"mov.f32 %f1, 0fB3000000; cvt.rn.f16.f32 %rs2, %f1;", "u16 %rs2", 0x8000}, // half of the least, to even
		{"mov.f32 %f1, 0f33C00000; cvt.rn.f16.f32 %rs2, %f1;", "u16 %rs2", 2},      // 1.5 times the least, to even
		{"mov.f32 %f1, 0f387FE000; cvt.rn.f16.f32 %rs2, %f1;", "u16 %rs2", 0x400},  // 1023.5 times the least
		{"mov.u16 %rs1, 0x7C01; cvt.f32.f16 %f2, %rs1;", "u32 %f2", nan32},
		{"mov.u16 %rs1, 0x8001; cvt.f32.f16 %f2, %rs1;", "u32 %f2", 0xB3800000},
		{"mov.u32 %r1, 0x3C007BFF; add.rn.f16x2 %r2, %r1, %r1;", "u32 %r2", 0x40007C00},
		{"mov.f32 %f1, 0f7FC00000; setp.neu.f32 %p1, %f1, %f1; selp.b32 %r2, 1, 2, %p1;", "u32 %r2", 1},
		{"mov.f32 %f1, 0f7FC00000; setp.num.f32 %p1, %f1, %f1; selp.b32 %r2, 1, 2, %p1;", "u32 %r2", 2},
		{"mov.u32 %r2, 1; setp.lt.s32 %p1, %r2, -1; @%p1 bra $L; mov.u32 %r2, 3; $L:", "u32 %r2", 3},
		{"mov.u32 %r2, 1; setp.lt.u32 %p1, %r2, -1; @!%p1 bra $L; mov.u32 %r2, 3; $L:", "u32 %r2", 3},
		{"mov.u32 %r2, 1; bra.uni $L; mov.u32 %r2, 3; $L:", "u32 %r2", 1},
	} {
		typ, register, _ := strings.Cut(c.store, " ")
		lines := strings.ReplaceAll(c.code, "; ", ";\n")
		if strings.Contains(c.code, "tmp") {
			at := strings.Index(c.code, "{ .reg")
			lines = strings.ReplaceAll(c.code[:at], "; ", ";\n") + c.code[at:]
		}
		memory := make([]byte, 8)
		if err := try(lines+fmt.Sprintf("\nst.global.%s [%%rd1], %s;\nret;", typ, register), memory); err != nil {
			t.Errorf("%s: %v", c.code, err)
		} else if got := readBytes(memory); got != c.want {
			t.Errorf("%s: %s is %#x, want %#x", c.code, register, got, c.want)
		}
	}
}

func TestMemory(t *testing.T) {
	memory := make([]byte, 32)
	for i := range memory {
		memory[i] = byte(i)
	}
	if err := try("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];\nst.global.v4.u32 [%rd1], {%r4, %r3, %r2, "+
		"%r1};\natom.global.or.b32 %r5, [%rd1+16], 128;\nret;", memory); err != nil {
		t.Fatal(err)
	}
	if want := "\x1c\x1d\x1e\x1f\x18\x19\x1a\x1b\x14\x15\x16\x17\x10\x11\x12\x13\x90"; string(memory[:17]) != want {
		t.Errorf("memory is % x, want % x", memory[:17], want)
	}
}

// Code that a GPU would refuse, or that this package does not know, is an error.
func TestErrors(t *testing.T) {
	for code, want := range map[string]string{
		"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+8];\nret;": "misaligned",
		"ld.global.u64 %rd2, [%rd1+32];\nret;":                   "illegal address",
		"ld.global.u64 %rd2, [%rd1+-8];\nret;":                   "illegal address",
		"st.global.u8 [%rd2], 1;\nret;":                          "illegal address",
		"mov.u32 %r1, 0;\ndiv.u32 %r2, %r2, %r1;\nret;":          "division by 0",
		"mov.u32 %r1, 0;":                                        "ran past its end",
		"add.f32 %f1, %f2, %f3;":                                 "unknown instruction", // may be fused
		"fma.rn.f32 %f1, %f2, %f3, %f4;":                         "unknown instruction",
		"add.s32 %r1, %r2;":                                      "operands",
		"add.s32 %r1, %r2, %r99;":                                "no register",
		"bra $NOWHERE;":                                          "no label",
		"what is this":                                           "not understood",
		"ld.local.u32 %r1, [%rd1];":                              "unknown instruction",
		"ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];":              "unknown instruction",
		"add.s32 %r1, %r2, seven;":                               "invalid syntax",
		"$L:\nbra $L;":                                           "has not ended",
	} {
		if err := try(code, make([]byte, 32)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", code, err, want)
		}
	}
	k, err := compileOne("ret;")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Run(&PTXMemory{}, 1, 1, nil); err == nil || !strings.Contains(err.Error(), "takes 8 bytes") {
		t.Errorf("without a parameter: %v", err)
	}
}
