package tokens

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// claims are what a service account's token says of itself
// (kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin).
type claims struct {
	Audiences  audience `json:"aud"`
	Expires    int64    `json:"exp"`
	NotBefore  int64    `json:"nbf"`
	Kubernetes struct {
		Namespace string `json:"namespace"`
		Pod       struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// audience is one text or several (RFC 7519).
type audience []string

func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

var errForm = errors.New("it is no JSON Web Token")

// read takes the claims out of a token, and believes none of them.
func read(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errForm
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}, errForm
	}
	return c, nil
}

// hopeless says that Kubernetes would refuse the token, whatever its signature. It has several issuers after a change, and
// who makes tokens up knows them.
func (c claims) hopeless(now time.Time) bool {
	return !slices.Contains(c.Audiences, wire.Audience) ||
		c.Expires <= now.Unix() || c.NotBefore > now.Add(skew).Unix() ||
		c.Kubernetes.Namespace == "" || c.Kubernetes.Pod.Name == "" || c.Kubernetes.Pod.UID == ""
}

// skew is how far the clocks of two machines may be apart.
const skew = time.Minute
