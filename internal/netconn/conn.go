package netconn

import (
	"crypto/tls"
	"net"
)

// Conn is one connection to another process, which has proved itself. Read and
// Write go through TLS where that was asked for. There is no deadline on it.
// Like every net.Conn it may be read and written at once, by one goroutine each.
type Conn struct {
	net.Conn // the connection itself, or the TLS session over it

	raw     net.Conn
	tls     *tls.Conn // nil without encryption
	under   *under    // below tls
	bound   []byte    // binds proofs to tls
	session *Session
	proof   *transcript
	hello   Hello
	peer    int
	device  string
}

// Peer is the number of the other end.
func (c *Conn) Peer() int { return c.peer }

// Channel is what the dialing side said that the connection is for.
func (c *Conn) Channel() int { return int(c.hello.Channel) }

// Device is the name of the network device with the local address, such as
// "eth0"; "" when no device has it.
func (c *Conn) Device() string { return c.device }

// Raw returns the connection itself, below any TLS. Where TLS returns a session,
// bytes may only go through that.
func (c *Conn) Raw() net.Conn { return c.raw }

// TCP is Raw of a connection of a Mesh, for its descriptor and its options.
func (c *Conn) TCP() *net.TCPConn { return c.raw.(*net.TCPConn) }

// TLS returns the TLS 1.3 session over the connection, nil without encryption.
// Its handshake is complete.
func (c *Conn) TLS() *tls.Conn { return c.tls }

// SetInner makes inner what the TLS session reads records from and writes them
// to, in place of the TCP connection: so its owner decides when the socket is
// touched. Call it before the first Read and Write, and not while one runs.
//
// inner.Read may return what there is, and where there is nothing an error
// that is a net.Error with Temporary true: the session's Read returns it, keeps
// what it has of a record, and may be called again. inner.Write must take all
// that it is given, into a buffer for example: every error of a Write ends the
// session. A Read may call inner.Write, to answer a key update.
func (c *Conn) SetInner(inner net.Conn) { c.under.Conn = inner }
