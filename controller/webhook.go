package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/slurmlet/slurmlet/controller/internal/authority"
	"github.com/slurmlet/slurmlet/controller/internal/inject"
)

// listenToWebhook opens the port on which the API server asks, or none.
func (c *controller) listenToWebhook() (net.Listener, error) {
	if c.Webhook == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", c.WebhookAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the API server: %v", err)
	}
	return l, nil
}

// serveWebhook answers the API server until ctx ends.
func (c *controller) serveWebhook(ctx context.Context, l net.Listener) error {
	s := c.Inject
	s.Authority = authority.Name
	if err := inject.Serve(ctx, l, c.authority.TLS(), inject.Handler(s, c.log), c.log); err != nil {
		return fmt.Errorf("cannot serve the API server: %v", err)
	}
	return nil
}

// keepWebhook lets the API server trust the certificates, until ctx ends.
func (c *controller) keepWebhook(ctx context.Context) {
	if c.Webhook == "" {
		return
	}
	if err := inject.KeepBundle(ctx, c.api, c.Webhook, c.authority, c.log); err != nil {
		c.log.Error("the webhook's configuration is not kept", slog.Any("error", err))
	}
}
