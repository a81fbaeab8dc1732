package remote

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// loginLimit is how long sshd may take to let a user in.
const loginLimit = time.Minute

// Login has a user come in through a connection to sshd, and closes it where the user stays out. The error then has
// what sshd tells the user.
func Login(conn net.Conn, user string, key ssh.Signer) (*ssh.Client, error) {
	var said string
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: loginLimit,
		BannerCallback: func(text string) error { said += text; return nil },
	}
	client, channels, requests, err := ssh.NewClientConn(conn, conn.RemoteAddr().String(), config)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return ssh.NewClient(client, channels, requests), nil
}
