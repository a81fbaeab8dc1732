package process

import (
	"context"
	"net"
)

// Answers succeeds when a process takes connections at an address.
func Answers(ctx context.Context, network, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}
