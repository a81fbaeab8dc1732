package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestComments(t *testing.T) {
	const comment = GroupComment + "4f6c hpc/train"
	for text, want := range map[string][]any{
		comment:                                 {"4f6c", "hpc/train", 1},
		WithStatus(comment, 137):                {"4f6c", "hpc/train", 137},
		WithStatus(WithStatus(comment, 137), 3): {"4f6c", "hpc/train", 3},
		comment + " exit=256":                   {"4f6c", "hpc/train", 1},
		comment + " exit=0\n":                   {"4f6c", "hpc/train", 1},
		comment + " exit=255\n":                 {"4f6c", "hpc/train", 255},
		GroupComment:                            {"", "", 1},
		"mine":                                  {"", "", 1},
		"":                                      {"", "", 1},
	} {
		uid, name := GroupOf(text)
		assert.Equal(t, want, []any{uid, name, StatusOf(text)}, text)
	}
}
