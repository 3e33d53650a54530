package kernels

// Pack returns what a kernel is given.
var Pack = pack

// Grid returns how many blocks a launch gets.
var Grid = (*Set).grid
