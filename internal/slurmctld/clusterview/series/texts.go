package series

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// Texts makes each text of a View once, when somebody wants it, and keeps those of the last View.
type Texts struct {
	options Options
	last    atomic.Pointer[edition]

	lock    sync.Mutex // of who makes a text
	history history
}

// edition are the texts of one View, which never change.
type edition struct {
	view   *clusterview.View
	counts *counts
	texts  [pageCount][2]*Text
}

// Text is one page of one View, which many clients get. Its bytes never change.
type Text struct {
	gzip bool
	body []byte
	// sum and size are gzip's, of what body is made from.
	sum, size uint32
}

// NewTexts has no texts.
func NewTexts(o Options) *Texts { return &Texts{options: o} }

// Have is the text if it was made before, nil otherwise. It never waits.
func (t *Texts) Have(v *clusterview.View, p Page, gzip bool) *Text {
	last := t.last.Load()
	if last == nil || last.view != v {
		return nil
	}
	return last.texts[p][encoding(gzip)]
}

// Make makes the text if need be. It may take a tenth of a second, and waits for others that make one.
func (t *Texts) Make(v *clusterview.View, p Page, gzip bool) *Text {
	t.lock.Lock()
	defer t.lock.Unlock()
	if text := t.Have(v, p, gzip); text != nil {
		return text
	}
	next := edition{view: v}
	if last := t.last.Load(); last != nil && last.view == v {
		next = *last
	} else {
		t.history.observe(v)
		next.counts = count(v, t.options)
	}
	text := &Text{gzip: gzip}
	text.write(func(to io.Writer) {
		_ = p.write(to, v, next.counts, &t.history, t.options) // to memory
	})
	next.texts[p][encoding(gzip)] = text
	t.last.Store(&next)
	return text
}

func encoding(gzip bool) int {
	if gzip {
		return 1
	}
	return 0
}

// header is gzip's (RFC 1952): deflate, no name, no time, an unknown system.
var header = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// write makes the body. That of gzip ends between two blocks, so that a Tail can follow.
func (t *Text) write(page func(io.Writer)) {
	var b bytes.Buffer
	if !t.gzip {
		page(&b)
		t.body = b.Bytes()
		return
	}
	b.Write(header)
	deflate, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is one that there is
	page(io.MultiWriter(deflate, summing{t}))
	_ = deflate.Flush() // to memory
	t.body = bytes.Clone(b.Bytes())
}

// summing computes what ends a gzip stream.
type summing struct{ t *Text }

func (s summing) Write(p []byte) (int, error) {
	s.t.sum = crc32.Update(s.t.sum, crc32.IEEETable, p)
	s.t.size += uint32(len(p))
	return len(p), nil
}

// Body is what all clients get first. Nobody changes it.
func (t *Text) Body() []byte { return t.body }

// Tail is what one client gets after Body: more, which is not compressed, and gzip's end.
func (t *Text) Tail(more []byte) []byte {
	if !t.gzip {
		return more
	}
	end := summing{&Text{sum: t.sum, size: t.size}}
	_, _ = end.Write(more) // it cannot fail
	var tail []byte
	for last := false; !last; {
		block := more[:min(len(more), 1<<16-1)]
		more = more[len(block):]
		last = len(more) == 0
		final := byte(0)
		if last {
			final = 1
		}
		tail = append(tail, final) // a stored block (RFC 1951, 3.2.4)
		tail = binary.LittleEndian.AppendUint16(tail, uint16(len(block)))
		tail = binary.LittleEndian.AppendUint16(tail, ^uint16(len(block)))
		tail = append(tail, block...)
	}
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(tail, end.t.sum), end.t.size)
}

// SetHeader says what Body and Tail are.
func (t *Text) SetHeader(h http.Header) {
	h.Set("Content-Type", exposition.ContentType)
	h.Set("Vary", "Accept-Encoding")
	if t.gzip {
		h.Set("Content-Encoding", "gzip")
	}
}

// AcceptsGzip says whether a client takes gzip.
func AcceptsGzip(h http.Header) bool {
	for one := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";q=")
		if strings.EqualFold(name, "gzip") {
			return strings.Trim(quality, "0.") != "" || quality == ""
		}
	}
	return false
}
