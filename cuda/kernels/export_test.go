package kernels

// Pack returns what a kernel is given.
var Pack = pack
