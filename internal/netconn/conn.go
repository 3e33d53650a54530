package netconn

import (
	"crypto/tls"
	"net"
)

// Conn is one connection to another process, which has been authenticated. Read and Write use TLS if the session
// encrypts. The connection has no deadline. Like every net.Conn it may be read and written concurrently, by one
// goroutine each.
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

// Peer returns the number of the other end.
func (c *Conn) Peer() int { return c.peer }

// Channel returns the channel number that the dialing side sent for the connection.
func (c *Conn) Channel() int { return int(c.hello.Channel) }

// Device returns the name of the network device with the local address, such as "eth0", or "" if no device has it.
func (c *Conn) Device() string { return c.device }

// Raw returns the connection itself, below any TLS. If TLS returns a session, all data must go through the session.
func (c *Conn) Raw() net.Conn { return c.raw }

// TCP returns Raw of a connection of a Mesh, for its descriptor and its options.
func (c *Conn) TCP() *net.TCPConn { return c.raw.(*net.TCPConn) }

// TLS returns the TLS 1.3 session over the connection, nil without encryption.
// Its handshake is complete.
func (c *Conn) TLS() *tls.Conn { return c.tls }

// SetInner makes the TLS session read records from inner and write them to it, in place of the TCP connection, so that
// the owner of the session decides when the socket is used. It must be called before the first Read and Write, and not
// during one.
//
// inner.Read may return the available data and, if there is none, a net.Error whose Temporary method returns true: the
// session's Read returns that error, keeps the part of a record that it has, and may be called again. inner.Write must
// accept all its data, into a buffer for example: any error of a Write ends the session. A Read may call inner.Write,
// to answer a key update.
func (c *Conn) SetInner(inner net.Conn) { c.under.Conn = inner }
