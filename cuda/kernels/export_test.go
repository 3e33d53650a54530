package kernels

// Pack returns the argument of a kernel.
var Pack = pack

// Grid returns the number of blocks of a launch.
var Grid = (*Set).grid
