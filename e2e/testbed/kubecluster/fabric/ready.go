package fabric

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// planeLimit is how long the API may take to be ready, on a busy machine.
const planeLimit = 3 * time.Minute

func (p plane) awaitAPI() error {
	authority, err := os.ReadFile(p.pki("authority.crt"))
	if err != nil {
		return err
	}
	admin, err := tls.LoadX509KeyPair(p.pki("admin.crt"), p.pki("admin.key"))
	if err != nil {
		return fmt.Errorf("cannot ask the API server: %v", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{admin}},
	}}
	defer client.CloseIdleConnections()
	for end := time.Now().Add(planeLimit); ; {
		err := ready(client)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the API server is not ready after %v: %v", planeLimit, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func ready(client *http.Client) error {
	answer, err := client.Get(API + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}
