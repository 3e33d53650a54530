// Package comm is the inside of a communicator: the order of its calls and messages, its end, its parts, and its calls
// on its ranks' devices. Package setup makes its links and plans, package device opens the devices. Packages collective
// and collective/sparse are the API around it. A *Comm is not for users; they have a *collective.Comm, of which Of
// returns the inside.
package comm
