//go:build cgo && linux

package nvml

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdint.h>
//
// static char *reply(void) {
//     static char memory[8192];
//     return memory;
// }
//
// static int call(void *f, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
//     return ((int (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t))f)(a, b, c, d);
// }
//
// static const char *words(void *f, int ret) {
//     return f ? ((const char *(*)(int))f)(ret) : "unknown error";
// }
import "C"

import "unsafe"

// open opens NVML. All functions that are called take handles, numbers and addresses, four at most. Where the library
// or the function does not exist, a call returns the result for that. All functions write to the same buffer.
func open() (*library, error) {
	handle := C.dlopen(chars("libnvidia-ml.so.1"), C.RTLD_LAZY)
	at := unsafe.Pointer(C.reply())
	l := &library{reply: unsafe.Slice((*byte)(at), 8192), at: uintptr(at)}
	l.call = func(name string, args ...uintptr) result {
		if handle == nil {
			return libraryNotFound
		}
		f := C.dlsym(handle, chars(name))
		if f == nil {
			return functionNotFound
		}
		var a [4]C.uintptr_t
		for i, arg := range args {
			a[i] = C.uintptr_t(arg)
		}
		return result(C.call(f, a[0], a[1], a[2], a[3]))
	}
	l.why = func(ret result) string {
		return C.GoString(C.words(C.dlsym(handle, chars("nvmlErrorString")), C.int(ret)))
	}
	return l, nil
}

// chars is a text as C has it.
func chars(s string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }
