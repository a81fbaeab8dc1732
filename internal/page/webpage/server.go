package webpage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// Options are a Server's surroundings.
type Options struct {
	// Facts asks slurmctld's agent.
	Facts    func(context.Context) (*pagefacts.Facts, error)
	Entrance Entrance
	Log      *slog.Logger
}

// Server serves the page.
type Server struct {
	entrance     Entrance
	certificates *certificates // nil for no TLS
	source       *source
	log          *seldom
	assets       map[string]asset

	rendering chan struct{} // as many pages are made at once
	lock      sync.Mutex
	version   int
	pages     map[pageKey]*rendered
}

type pageKey struct {
	named bool
	Filter
}

type asset struct {
	kind, tag string
	rendered
}

const (
	// mostVisitors and mostStreams are connections; each costs some 20 kB.
	mostVisitors, mostStreams = 512, 256
	// mostRendering pages are made at once, and mostPages of one version kept.
	mostRendering, mostPages = 2, 16
	mostHead                 = 8 << 10
)

// New reads the certificates. Its error names what is wrong with them.
func New(o Options) (*Server, error) {
	if err := o.Entrance.check(); err != nil {
		return nil, err
	}
	s := &Server{
		entrance: o.Entrance, source: newSource(o.Facts), log: newSeldom(o.Log), assets: map[string]asset{},
		rendering: make(chan struct{}, mostRendering), pages: map[pageKey]*rendered{},
	}
	if o.Entrance.secure() {
		s.certificates = &certificates{Entrance: o.Entrance}
		if _, err := s.certificates.config(s.log); err != nil {
			return nil, err
		}
	}
	for name, kind := range map[string]string{
		"style.css": "text/css; charset=utf-8",
		"page.js":   "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		packed, err := pack(text)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		s.assets["/"+name] = asset{kind, `"` + hex.EncodeToString(sum[:8]) + `"`, *packed}
	}
	return s, nil
}

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ConnContext: remember, MaxHeaderBytes: mostHead,
		ErrorLog:          slog.NewLogLogger(seldomHandler{s.log.log.Handler(), s.log}, slog.LevelWarn),
		ReadHeaderTimeout: askPatience, ReadTimeout: askPatience, WriteTimeout: readPatience, IdleTimeout: idlePatience,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	l = newDoor(l, mostVisitors)
	if s.certificates != nil {
		l = s.certificates.over(l, s.log)
	}
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve the page: %w", err)
}

// policy allows what the page brings along itself, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		h.Set(name, value)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Connection", "close")
		http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength != 0 {
		h.Set("Connection", "close")
		http.Error(w, "no body is read", http.StatusRequestEntityTooLarge)
		return
	}
	if one, found := s.assets[r.URL.Path]; found {
		s.serveAsset(w, r, one)
		return
	}
	switch r.URL.Path {
	case "/healthz":
		fmt.Fprintln(w, "ok")
	case "/", "/events":
		s.serveReader(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request, one asset) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", one.kind)
	w.Header().Set("ETag", one.tag)
	if r.Header.Get("If-None-Match") == one.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, r, &one.rendered)
}

// serveReader answers what depends on who asks.
func (s *Server) serveReader(w http.ResponseWriter, r *http.Request) {
	who, err := readerOf(r, s.entrance.UserHeader)
	v := visitorOf(r.Context())
	v.is(who.name)
	switch {
	case errors.Is(err, errHost):
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
	case err != nil:
		s.log.warn("cannot find out who asks", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
	case r.URL.Path == "/events":
		s.serveEvents(w, r, v)
	default:
		s.servePage(w, r, who.named)
	}
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request, named bool) {
	key := pageKey{named: named}
	if named {
		key.Filter = filterOf(r.URL.Query())
	}
	page, err := s.render(r.Context(), key)
	if err != nil {
		s.log.warn("cannot serve the page", err)
		http.Error(w, "the page cannot be made now", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if s.entrance.UserHeader != "" {
		w.Header().Set("Vary", s.entrance.UserHeader)
	}
	send(w, r, page)
}

// strangersFault is what strangers read for every fault.
const strangersFault = "slurmctld's agent did not send new ones."

// render is made once for all who see the same.
func (s *Server) render(ctx context.Context, key pageKey) (*rendered, error) {
	now := s.source.present(ctx)
	if page := s.kept(now.version, key); page != nil {
		return page, nil
	}
	select {
	case s.rendering <- struct{}{}:
		defer func() { <-s.rendering }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if page := s.kept(now.version, key); page != nil {
		return page, nil
	}
	p := &Page{
		Named: key.named, Seconds: reloadSeconds, NothingRead: true,
		Agents: Agents{Followers: "0", Nodes: "0", Others: "0"}, MapSize: "large",
	}
	if now.cluster != nil {
		p = now.cluster.newPage(key.named, key.Filter)
	}
	p.Version, p.Fault = now.version, now.fault
	if p.Fault != "" && !key.named {
		p.Fault = strangersFault
	}
	page, err := p.render()
	if err != nil {
		return nil, err
	}
	s.keep(now.version, key, page)
	return page, nil
}

func (s *Server) kept(version int, key pageKey) *rendered {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.version != version {
		return nil
	}
	return s.pages[key]
}

func (s *Server) keep(version int, key pageKey, page *rendered) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if version < s.version {
		return
	}
	if version > s.version || len(s.pages) >= mostPages {
		s.version = version
		clear(s.pages)
	}
	s.pages[key] = page
}

func send(w http.ResponseWriter, r *http.Request, text *rendered) {
	body := text.plain
	w.Header().Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = text.packed
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the reader has gone
}

// serveEvents sends an event when there is something new; who wants to know what loads the page.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, v *visitor) {
	out := http.NewResponseController(w)
	if r.Method == http.MethodHead {
		return
	}
	v.setStreaming(true, mostStreams)
	defer v.setStreaming(false, mostStreams)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	if out.SetReadDeadline(time.Now().Add(streamTime)) != nil { // ReadTimeout's would end the context
		return
	}
	seen, err := strconv.Atoi(r.URL.Query().Get("seen"))
	if err != nil {
		seen = -1
	}
	send := func(text string) error {
		if err := out.SetWriteDeadline(time.Now().Add(askPatience)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return out.Flush()
	}
	if send("retry: 5000\n\n") != nil {
		return
	}
	s.source.watch(ctx, seen, func(version int) error {
		if version < 0 {
			return send(": beat\n\n")
		}
		return send(fmt.Sprintf("event: view\ndata: %d\n\n", version))
	})
}
