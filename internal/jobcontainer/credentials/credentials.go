// Package credentials finds what a user shows a registry: enroot's .credentials, docker's config.json with its helpers,
// and podman's auth.json. It prints no secret, and gives none to a program as an argument.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Found is what a registry is shown, and the file that it is from; an empty From: nothing, so as a stranger.
type Found struct {
	authn.Authenticator
	User, From string
}

// Files are where credentials are looked for, by a user's environment.
type Files struct {
	// Enroot is a file like netrc(5); Docker are files as `docker login` writes one.
	Enroot string
	Docker []string
}

// Of returns the files that enroot, docker and podman take, in this order.
func Of(getenv func(string) string) Files {
	home := getenv("HOME")
	or := func(variable, dir string) string {
		if value := getenv(variable); value != "" {
			return value
		}
		if home == "" {
			return ""
		}
		return filepath.Join(home, dir)
	}
	configs := or("XDG_CONFIG_HOME", ".config")
	f := Files{Enroot: getenv("ENROOT_CONFIG_PATH")}
	if f.Enroot == "" && configs != "" {
		f.Enroot = filepath.Join(configs, "enroot")
	}
	if f.Enroot != "" {
		f.Enroot = filepath.Join(f.Enroot, ".credentials")
	}
	if dir := or("DOCKER_CONFIG", ".docker"); dir != "" {
		f.Docker = append(f.Docker, filepath.Join(dir, "config.json"))
	}
	if file := getenv("REGISTRY_AUTH_FILE"); file != "" {
		return Files{f.Enroot, append(f.Docker, file)}
	}
	for _, dir := range []string{getenv("XDG_RUNTIME_DIR"), configs} {
		if dir != "" {
			f.Docker = append(f.Docker, filepath.Join(dir, "containers/auth.json"))
		}
	}
	return f
}

// String names the files for people.
func (f Files) String() string { return strings.Join(append([]string{f.Enroot}, f.Docker...), ", ") }

// Find returns a user's credentials for a repository; an empty user is whoever the files name first. Credentials that
// cannot be read are an error, not a stranger's visit: a registry would only say that there is no such image.
func (f Files) Find(ctx context.Context, repository name.Repository, user string) (Found, error) {
	found, err := f.ofEnroot(ctx, repository.RegistryStr(), user)
	if err != nil || found.From != "" {
		return found, err
	}
	for _, file := range f.Docker {
		found, err := ofDocker(file, repository)
		if err != nil {
			return Found{}, fmt.Errorf("cannot take credentials from %s: %w", file, err)
		}
		if found.From != "" && (user == "" || found.User == user || found.User == "") {
			return found, nil
		}
	}
	if user != "" {
		return Found{}, fmt.Errorf("there are no credentials of %s for %s in %s", user, repository.RegistryStr(), f)
	}
	return Found{Authenticator: authn.Anonymous}, nil
}

// machines are the names under which enroot's users keep a registry: curl takes that of the server which gives tokens.
func machines(registry string) []string {
	all := []string{registry}
	if host, _, err := net.SplitHostPort(registry); err == nil {
		all = append(all, host)
	}
	switch registry {
	case name.DefaultRegistry:
		all = append(all, "auth.docker.io", "registry-1.docker.io", "docker.io")
	case "nvcr.io":
		all = append(all, "authn.nvidia.com")
	case "registry.gitlab.com":
		all = append(all, "gitlab.com")
	}
	return all
}

func (f Files) ofEnroot(ctx context.Context, registry, user string) (Found, error) {
	if f.Enroot == "" {
		return Found{}, nil
	}
	text, err := os.ReadFile(f.Enroot)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, fmt.Errorf("cannot read credentials: %w", err)
	}
	l, is := find(parseNetrc(string(text)), machines(registry), user)
	if !is {
		return Found{}, nil
	}
	if strings.HasPrefix(l.password, "$") {
		if l.password, err = evaluate(ctx, l.password); err != nil {
			return Found{}, fmt.Errorf("cannot evaluate the password of %s for %s in %s: %w", l.user, l.machine, f.Enroot, err)
		}
	}
	return Found{&authn.Basic{Username: l.user, Password: l.password}, l.user, f.Enroot}, nil
}

// evaluate has a shell print a password like $(aws ecr get-login-password), as enroot does. The shell reads it: nobody
// sees it among the processes' arguments.
func evaluate(ctx context.Context, password string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh")
	cmd.Stdin = strings.NewReader("set -e; secret=\"" + password + "\"; printf %s \"$secret\"\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil && len(strings.TrimSpace(string(out))) == 0 {
		err = errors.New("it is empty")
	}
	return strings.TrimRight(string(out), "\r\n"), err
}

// ofDocker reads one of docker's files, or has its helper answer.
func ofDocker(file string, repository name.Repository) (Found, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, err
	}
	defer f.Close()
	c, err := config.LoadFromReader(f)
	if err != nil {
		return Found{}, err
	}
	for _, key := range keys(repository) {
		got, err := c.GetAuthConfig(key)
		if err != nil {
			return Found{}, err
		}
		got.ServerAddress = ""
		if got == (types.AuthConfig{}) {
			continue
		}
		return Found{authn.FromConfig(authn.AuthConfig{
			Username: got.Username, Password: got.Password, Auth: got.Auth,
			IdentityToken: got.IdentityToken, RegistryToken: got.RegistryToken,
		}), got.Username, file}, nil
	}
	return Found{}, nil
}

// keys are what a file may call a repository, the longest first: podman keeps credentials for a part of a registry.
func keys(repository name.Repository) []string {
	registry := repository.RegistryStr()
	var all []string
	for path := registry + "/" + repository.RepositoryStr(); path != registry; path = path[:strings.LastIndex(path, "/")] {
		all = append(all, path)
	}
	if registry == name.DefaultRegistry {
		return append(all, authn.DefaultAuthKey, "docker.io")
	}
	return append(all, registry)
}
