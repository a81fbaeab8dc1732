package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// push copies all that a release has into a registry, under the digests that it has.
func (s settings) push(ctx context.Context) error {
	if _, err := os.Stat(s.sumsPath() + signature); err != nil {
		return fmt.Errorf("cannot push %s, which is not signed: %w", s.out, err)
	}
	repositories, err := s.repositories()
	if err != nil {
		return err
	}
	for _, repository := range repositories {
		if err := s.pushOne(ctx, repository); err != nil {
			return err
		}
	}
	return nil
}

// repositories are those that the release has layouts of.
func (s settings) repositories() ([]string, error) {
	root := s.layout("")
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != v1.ImageLayoutFile {
			return err
		}
		name, err := filepath.Rel(root, filepath.Dir(path))
		all = append(all, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list what there is to push: %w", err)
	}
	return all, nil
}

func (s settings) pushOne(ctx context.Context, repository string) error {
	from, err := s.store(ctx, repository)
	if err != nil {
		return err
	}
	to, err := s.remote(repository)
	if err != nil {
		return err
	}
	tags, err := registry.Tags(ctx, from)
	if err != nil {
		return fmt.Errorf("cannot list the tags of %s: %w", repository, err)
	}
	for _, tag := range tags {
		top, err := from.Resolve(ctx, tag)
		if err != nil {
			return fmt.Errorf("cannot find %s:%s: %w", repository, tag, err)
		}
		nodes := []v1.Descriptor{top}
		if top.MediaType == v1.MediaTypeImageIndex {
			var index v1.Index
			if err := getJSON(ctx, from, top, &index); err != nil {
				return err
			}
			nodes = append(nodes, index.Manifests...)
		}
		if err := copyAll(ctx, from, to, nodes); err != nil {
			return err
		}
		if err := to.Tag(ctx, top, tag); err != nil {
			return fmt.Errorf("cannot tag %s:%s: %w", repository, tag, err)
		}
		say("pushed %s/%s:%s, %s", s.registry, repository, tag, top.Digest)
	}
	return nil
}

// remote is a repository of the registry.
func (s settings) remote(repository string) (*remote.Repository, error) {
	to, err := remote.NewRepository(s.registry + "/" + repository)
	if err != nil {
		return nil, fmt.Errorf("cannot push to %s/%s: %w", s.registry, repository, err)
	}
	client := &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache()}
	if user := os.Getenv("REGISTRY_USER"); user != "" {
		client.Credential = auth.StaticCredential(to.Reference.Host(), auth.Credential{Username: user, Password: os.Getenv("REGISTRY_PASSWORD")})
	} else {
		docker, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot read Docker's credentials: %w", err)
		}
		client.Credential = credentials.Credential(docker)
	}
	to.Client, to.PlainHTTP = client, s.plainHTTP
	// Each thing that refers to an image makes a new list of them, where the registry
	// has no such list of its own. Most registries refuse to delete the former one.
	to.SkipReferrersGC = true
	return to, nil
}
