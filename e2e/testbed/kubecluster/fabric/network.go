package fabric

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/vishvananda/netlink"
)

const bridgeName = "nodes0"

// connect makes the bridge that the nodes are plugged into, and the ways to
// their pods.
func (s Settings) connect() error {
	for file, value := range map[string]string{"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/send_redirects": "0", "net/ipv6/conf/all/disable_ipv6": "1"} {
		if err := os.WriteFile("/proc/sys/"+file, []byte(value), 0); err != nil {
			return fmt.Errorf("cannot make the bed's network: %v", err)
		}
	}
	if err := guest.SetUp("lo", "", 0); err != nil {
		return err
	}
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}); err != nil {
		return fmt.Errorf("cannot make the bed's network: %v", err)
	}
	if err := guest.SetUp(bridgeName, Gateway, 24); err != nil {
		return err
	}
	for i := range s.Nodes {
		_, pods, err := net.ParseCIDR(Pods(i))
		if err == nil {
			err = netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: net.ParseIP(Address(i))})
		}
		if err != nil {
			return fmt.Errorf("cannot make the way to the pods on %s: %v", s.Nodes[i], err)
		}
	}
	return nil
}

// plugIn puts an interface into the bridge.
func plugIn(name string) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("cannot find the bed's bridge: %v", err)
	}
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetMaster(link, bridge)
	}
	if err != nil {
		return fmt.Errorf("cannot plug %s into the bed's bridge: %v", name, err)
	}
	return nil
}

// serveAPI brings what comes in on the host's loopback to the API.
func serveAPI(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			say("no more clients from the host: %v", err)
			return
		}
		go join(client)
	}
}

func join(client net.Conn) {
	defer client.Close()
	api, err := net.Dial("tcp", net.JoinHostPort(Gateway, strconv.Itoa(apiPort)))
	if err != nil {
		return // as if the client had called the API itself
	}
	defer api.Close()
	done := make(chan struct{}, 2)
	for _, way := range []struct{ to, from net.Conn }{{api, client}, {client, api}} {
		go func() {
			_, _ = io.Copy(way.to, way.from)
			_ = way.to.(*net.TCPConn).CloseWrite()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
