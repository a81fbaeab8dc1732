package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	registryerrors "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/stretchr/testify/assert"
)

// TestRefusals: the image that a node has is taken where a registry is away, and not where it refuses the user.
func TestRefusals(t *testing.T) {
	for status, want := range map[int]struct{ refusal, temporary bool }{
		http.StatusUnauthorized:        {true, false},
		http.StatusForbidden:           {true, false},
		http.StatusNotFound:            {true, false},
		http.StatusRequestTimeout:      {false, true},
		http.StatusTooManyRequests:     {false, true},
		http.StatusInternalServerError: {false, true},
		http.StatusServiceUnavailable:  {false, true},
	} {
		err := fmt.Errorf("cannot get it: %w", &registryerrors.Error{StatusCode: status})
		assert.Equal(t, want.refusal, isRefusal(err), status)
		assert.Equal(t, want.temporary, isTemporary(err), status)
	}
	for _, err := range []error{errors.New("no route to host"), context.DeadlineExceeded} {
		assert.False(t, isRefusal(err), err)
		assert.False(t, isTemporary(err), err)
	}
}
