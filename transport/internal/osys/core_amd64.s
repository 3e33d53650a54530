//go:build linux

#include "textflag.h"

// func rdpid() uint64
TEXT ·rdpid(SB), NOSPLIT, $0-8
	BYTE $0xF3; BYTE $0x0F; BYTE $0xC7; BYTE $0xF8 // RDPID RAX
	MOVQ AX, ret+0(FP)
	RET

// func cpuid(leaf uint32) (a, c uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL CX, c+12(FP)
	RET
