package sack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPortTable: connections to the daemon's port count, accepted or not, and those of this pod by who has made them.
func TestPortTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1AA2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1AA2 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 101 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:1AA2 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1
   3: 0A580001:1AA2 0A580002:C003 01 00000000:00000000 00:00000000 00000000     0        0 102 1 0000000000000000 20 4 30 10 -1
   4: 0100007F:C001 0100007F:1AA2 01 00000000:00000000 00:00000000 00000000  1000        0 103 1 0000000000000000 20 4 30 10 -1
   5: 0100007F:C002 0100007F:1AA2 01 00000000:00000000 00:00000000 00000000  1000        0 104 1 0000000000000000 20 4 30 10 -1
   6: 0100007F:C004 0100007F:1AA1 01 00000000:00000000 00:00000000 00000000  1000        0 105 1 0000000000000000 20 4 30 10 -1
   7: 0100007F:1AA2 0100007F:C005 06 00000000:00000000 00:00000000 00000000     0        0 106 1 0000000000000000 20 4 30 10 -1
`
	all := portTable{accepted: map[string]bool{}, holders: map[string]int{}}
	readPortTable(table, 6818, &all)
	require.Equal(t, portTable{connections: 3, accepted: map[string]bool{"101": true, "102": true}, holders: map[string]int{"1000": 2}}, all)
	require.Equal(t, "3 connections, 2 of uid 1000", all.String())
}
