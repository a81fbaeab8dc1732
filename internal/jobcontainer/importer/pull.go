package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	registryerrors "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/sqfstar"
)

// mostAsking bounds how long a registry is asked about an image that is in the cache.
const mostAsking = 5 * time.Second

// Pull has a registry's image in a user's cache, and returns it as the cache holds it, with its digest. The import's
// Output and Temp are the cache's to choose. id is that of a step whose nodes share the cache, empty for others.
func (i *Import) Pull(ctx context.Context, text, node, id string, cache imagecache.Cache) (digest string, held *os.File, err error) {
	i.began, i.step = time.Now(), &step{node, cache.MakeRoom}
	if i.ref, err = imageref.Parse(text); err == nil && i.ref.Image == nil {
		err = fmt.Errorf("%s is in no registry", text)
	}
	if err == nil {
		err = cache.Check()
	}
	if err == nil {
		digest, held, err = i.pullOnce(ctx, id, cache)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("the pull is cancelled, and nothing of it is left")
	}
	return digest, held, redacted(err)
}

// pullOnce has the first of a step's nodes ask and pull for all that share the cache.
func (i *Import) pullOnce(ctx context.Context, id string, cache imagecache.Cache) (string, *os.File, error) {
	if id == "" {
		return i.pull(ctx, "", cache)
	}
	var held *os.File
	known, err := cache.Once(ctx, i.ref.String(), id, func() { i.say("waits for another node of this step, which asks for %s", i.ref) },
		func() (k imagecache.Known, err error) {
			k.Image, held, err = i.pull(ctx, id, cache)
			return k, err
		})
	if err == nil && held == nil {
		held, err = cache.Hold(known.Image)
	}
	if err == nil && held == nil { // another step had no room, and has removed it
		return i.pull(ctx, id, cache)
	}
	return known.Image, held, err
}

func (i *Import) pull(ctx context.Context, id string, cache imagecache.Cache) (string, *os.File, error) {
	known := cache.Recall(i.ref.String())
	now, err := i.current(ctx, known)
	if err != nil {
		return "", nil, err
	}
	if now == known.Digest {
		if held, err := cache.Hold(known.Image); held != nil || err != nil {
			if known.Step = id; id != "" {
				i.complain(cache.Remember(known))
			}
			return known.Image, held, err
		}
	}
	r, err := i.registry(ctx, pauses)
	if err != nil {
		return "", nil, err
	}
	image, err := r.image(i.ref.At(now)) // by digest: the tag may move meanwhile
	if err != nil {
		return "", nil, err
	}
	hash, err := image.Digest()
	if err != nil {
		return "", nil, fmt.Errorf("cannot read the manifest of %s: %w", i.ref, err)
	}
	held, err := i.hold(ctx, cache, r, image, hash.String())
	if err == nil {
		i.complain(cache.Remember(imagecache.Known{Reference: i.ref.String(), Digest: now, Image: hash.String(), Step: id}))
	}
	return hash.String(), held, err
}

// complain tells of what ends no step.
func (i *Import) complain(err error) {
	if err != nil {
		i.say("%v", err)
	}
}

// current is the digest that the reference has in its registry now. Where that gives no answer, it is the one that the
// registry gave last, if its image is in the cache.
func (i *Import) current(ctx context.Context, known imagecache.Known) (string, error) {
	if digest := i.ref.Digest(); digest != "" {
		return digest, nil
	}
	if known.Image == "" {
		r, err := i.registry(ctx, pauses)
		if err != nil {
			return "", err
		}
		return r.digest()
	}
	soon, cancel := context.WithTimeout(ctx, mostAsking)
	defer cancel()
	r, err := i.registry(soon, nil)
	var digest string
	if err == nil {
		digest, err = r.digest()
	}
	if err == nil || ctx.Err() != nil || isRefusal(err) {
		return digest, err
	}
	i.say("%s gives no answer about %s: takes the image that it named last, %s: %v",
		i.ref.Image.Registry, i.ref, known.Image, redacted(err))
	return known.Digest, nil
}

// digest asks with HEAD, which registries do not count as a pull. Where that is answered with an error, GET says why.
func (r registry) digest() (string, error) {
	image, err := r.named(r.ref)
	if err != nil {
		return "", err
	}
	head, err := remote.Head(image, r.options...)
	if err == nil {
		return head.Digest.String(), nil
	}
	if _, is := errors.AsType[*url.Error](err); is || isTemporary(err) {
		return "", r.explain(err, r.who)
	}
	descriptor, err := r.get(r.ref)
	if err != nil {
		return "", err
	}
	return descriptor.Digest.String(), nil
}

// isRefusal says whether a registry has answered that this user does not get the image.
func isRefusal(err error) bool {
	answer, is := errors.AsType[*registryerrors.Error](err)
	return is && answer.StatusCode >= 400 && answer.StatusCode < 500 && !isTemporary(err)
}

func isTemporary(err error) bool {
	answer, is := errors.AsType[*registryerrors.Error](err)
	return is && (answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusRequestTimeout)
}

// hold pulls an image unless it is there, or another step does.
func (i *Import) hold(ctx context.Context, cache imagecache.Cache, r registry, image v1.Image, digest string) (*os.File, error) {
	if held, err := cache.Hold(digest); held != nil || err != nil {
		return held, err
	}
	own, err := cache.Begin(ctx, digest, func() { i.say("waits for another step of this user, which pulls %s here", i.ref) })
	if err != nil {
		return nil, err
	}
	defer own.End()
	if held, err := cache.Hold(digest); held != nil || err != nil {
		return held, err
	}
	program, err := sqfstar.Find()
	if err != nil {
		return nil, err
	}
	i.say("pulls %s, %s", i.ref, r.who)
	i.Temp, i.Output = own.Dir(), cache.Path(digest)
	written, err := i.make(ctx, program, own.Dir(), image)
	if err != nil {
		return nil, err
	}
	held, err := cache.Hold(digest)
	if err == nil && held == nil {
		err = fmt.Errorf("%s was removed at once", i.Output)
	}
	if err == nil {
		i.say("has %s after %v, a file of %s", i.ref, time.Since(i.began).Round(100*time.Millisecond), size(written))
		i.complain(cache.Evict())
	}
	return held, err
}
