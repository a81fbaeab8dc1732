package notify

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		data string
		want Message
	}{
		{"", Message{}},
		{"READY=1", Message{Ready: true}},
		{"READY=1\nMAINPID=4711", Message{Ready: true, MainPID: 4711}},
		{"READY=1\nMAINPID=4711\n", Message{Ready: true, MainPID: 4711}},
		{"BARRIER=1", Message{Barrier: true}},
		{"RELOADING=1\nMONOTONIC_USEC=5", Message{Reloading: true, Unknown: []string{"MONOTONIC_USEC=5"}}},
		{"STOPPING=1\nSTATUS=saving = all\nERRNO=5", Message{Stopping: true, Status: "saving = all", Errno: 5}},
		{"WATCHDOG=1", Message{Watchdog: true}},
		{"READY=0\nWATCHDOG=trigger\nnonsense\n=", Message{Unknown: []string{"READY=0", "WATCHDOG=trigger", "nonsense", "="}}},
		{"STATUS=a\xff", Message{Status: "a\uFFFD"}},
		{"MAINPID=5\nMAINPID=6", Message{MainPID: 6}},
	} {
		m, err := Parse([]byte(c.data))
		assert.NoError(t, err, "%q", c.data)
		assert.Equal(t, c.want, m, "%q", c.data)
	}
}

func TestParseRefuses(t *testing.T) {
	const pid = " is not a number from 1 to 4194304"
	for _, c := range []struct{ data, want string }{
		{"MAINPID=", `MAINPID=""` + pid},
		{"MAINPID", `MAINPID=""` + pid},
		{"MAINPID=0", `MAINPID="0"` + pid},
		{"MAINPID=-1", `MAINPID="-1"` + pid},
		{"MAINPID=+1", `MAINPID="+1"` + pid},
		{"MAINPID= 1", `MAINPID=" 1"` + pid},
		{"MAINPID=0x10", `MAINPID="0x10"` + pid},
		{"MAINPID=4194305", `MAINPID="4194305"` + pid},
		{"MAINPID=" + strings.Repeat("9", 100), `MAINPID="99999999999999999999"` + pid},
		{"ERRNO=none", `ERRNO="none" is not a number from 1 to 4095`},
		{"READY=1\x00", "a NUL in it"},
		{"STATUS=" + strings.Repeat("x", 4096), "longer than 4096 bytes"},
	} {
		m, err := Parse([]byte(c.data))
		assert.EqualError(t, err, "cannot read the message: "+c.want)
		assert.Equal(t, Message{}, m)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("READY=1\nMAINPID=4711"))
	f.Add([]byte("STATUS=x\xff\nERRNO=5\nBARRIER=1\nX"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			assert.Equal(t, Message{}, m)
			return
		}
		assert.True(t, m.MainPID >= 0 && m.MainPID <= maxPID)
		assert.True(t, m.Errno >= 0 && m.Errno <= maxErrno)
		assert.True(t, utf8.ValidString(m.Status))
		assert.Equal(t, m.Ready, strings.Contains("\n"+string(data)+"\n", "\nREADY=1\n"))
		for _, line := range m.Unknown {
			assert.Contains(t, string(data), line)
		}
	})
}
