package sack

import (
	"encoding/binary"
	"errors"
	"io"
)

// mostRequest bounds a request. A token to be verified is some kilobytes long.
const mostRequest = 64 << 10

// A request begins with its version and the number of bytes that follow the version (Slurm's sack.c), in network order.
const (
	lengthAt  = 2
	lengthEnd = lengthAt + 4
)

var errLong = errors.New("a request for credentials is too long")

// readRequest reads the whole of a request.
func readRequest(r io.Reader) ([]byte, error) {
	request := make([]byte, lengthEnd, 512)
	if _, err := io.ReadFull(r, request); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(request[lengthAt:])) + lengthAt
	if length > mostRequest {
		return nil, errLong
	}
	rest, err := io.ReadAll(io.LimitReader(r, max(length-lengthEnd, 0)))
	if err == nil && int64(len(rest)) < length-lengthEnd {
		err = io.ErrUnexpectedEOF
	}
	return append(request, rest...), err
}
