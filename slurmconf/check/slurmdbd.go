package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// purges says whether value is a time to keep records: of the unit a few letters are enough
// (src/common/slurmdb_defs.c, slurmdb_parse_purge).
func purges(value string) bool {
	unit := strings.ToLower(strings.TrimLeft(value, "0123456789"))
	if len(unit) == len(value) {
		return false
	}
	return strings.HasPrefix("months", unit) || strings.HasPrefix("hours", unit) || strings.HasPrefix("days", unit)
}

var (
	purge = rule{pattern: `(?i)\d+ *(months?|hours?|days?)?`, want: "a number of hours, days or months: 12months", takes: purges}
	// identifier: slurmdbd asks its database without quotation marks.
	identifier = rule{pattern: `[0-9A-Za-z$_\x{80}-\x{ffff}]+`, want: "letters, digits, $ and _"}
)

var slurmdbdRules = map[string]rule{
	"debuglevel":        level,
	"debuglevelsyslog":  level,
	"debugflags":        {list: true, words: debugFlags},
	"privatedata":       rules["privatedata"],
	"purgeeventafter":   purge,
	"purgejobafter":     purge,
	"purgeresvafter":    purge,
	"purgestepafter":    purge,
	"purgesuspendafter": purge,
	"purgetxnafter":     purge,
	"purgeusageafter":   purge,
	"storageloc":        identifier,
}

// slurmdbd checks slurmdbd.conf beyond its values (src/slurmdbd/read_config.c).
func (c *checker) slurmdbd() {
	conf := c.whole.Conf(slurmconf.SlurmdbdConf)
	if conf == nil {
		return
	}
	if _, ok := conf.Get("StorageType"); !ok {
		c.add(slurmconf.Position{File: conf.File.Name}, slurmconf.Error, "missing-key", "there is no StorageType",
			"StorageType=accounting_storage/mysql")
	}
	for _, k := range []pluginKey{
		{key: "StorageType", kind: "accounting_storage"},
		{key: "AuthType", kind: "auth"},
		{key: "HashPlugin", kind: "hash"},
		{key: "TLSType", kind: "tls"},
	} {
		if pair, ok := conf.Get(k.key); ok {
			c.pluginName(k, pair, pair.Value)
		}
	}
	pair, _ := conf.Get("CommunicationParameters")
	options := strings.ToLower(pair.Value)
	if strings.Contains(options, "disableipv4") && !strings.Contains(options, "enableipv6") {
		c.add(pair.Position(), slurmconf.Error, "network", "CommunicationParameters has DisableIPv4 without EnableIPv6", "both, or none")
	}
}
