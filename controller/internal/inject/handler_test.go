package inject

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// review is what the API server sends for a pod.
func review(t *testing.T, pod string, change func(*admissionv1.AdmissionRequest)) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(pod))
	require.NoError(t, err)
	r := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Namespace: "hpc", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: raw},
	}}
	r.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	r.Request.Kind.Version, r.Request.Kind.Kind = "v1", "Pod"
	if change != nil {
		change(r.Request)
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return text
}

func ask(t *testing.T, body []byte, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	Handler(settings, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	return w
}

func answer(t *testing.T, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	w := ask(t, body)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var r admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	require.Equal(t, "AdmissionReview", r.Kind)
	require.Equal(t, "admission.k8s.io/v1", r.APIVersion)
	require.Equal(t, "705ab4f5-6393-11e8-b7cc-42010a800002", string(r.Response.UID))
	return r.Response
}

func TestAPodIsInjected(t *testing.T) {
	pod, err := os.ReadFile("testdata/slurmd.in.yaml")
	require.NoError(t, err)
	for _, dryRun := range []*bool{nil, new(false), new(true)} {
		have := answer(t, review(t, string(pod), func(r *admissionv1.AdmissionRequest) { r.DryRun = dryRun }))
		require.True(t, have.Allowed)
		require.Equal(t, admissionv1.PatchTypeJSONPatch, *have.PatchType)
		result, faults := Pod(parsePod(t, string(pod)), settings)
		require.Empty(t, faults)
		assert.Equal(t, result.Did, have.Warnings)
		assert.Equal(t, map[string]string{"injected": result.Pod.Annotations[wellknown.Injected]}, have.AuditAnnotations)

		patch, err := jsonpatch.DecodePatch(have.Patch)
		require.NoError(t, err)
		raw, err := yaml.YAMLToJSON(pod)
		require.NoError(t, err)
		patched, err := patch.Apply(raw)
		require.NoError(t, err)
		var injected corev1.Pod
		require.NoError(t, json.Unmarshal(patched, &injected))
		assert.Equal(t, result.Pod, &injected)

		again := answer(t, review(t, string(patched), nil))
		assert.True(t, again.Allowed)
		assert.Empty(t, again.Patch)
		assert.Empty(t, again.Warnings)
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	have := answer(t, review(t, changed("slurm", "", "", ""), nil))
	assert.False(t, have.Allowed)
	assert.EqualValues(t, http.StatusUnprocessableEntity, have.Result.Code)
	assert.Equal(t, `Pod "node-0" is invalid: metadata.annotations[slurmlet.dev/inject]: Unsupported value: "slurm": supported values: "slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"`, have.Result.Message)
	assert.Equal(t, have.Result.Message, have.AuditAnnotations["refused"])
	assert.Empty(t, have.Patch)
}

// What is no new pod is let through, and what cannot be read is refused.
func TestOtherRequests(t *testing.T) {
	asked := changed("slurmd", "", "", "")
	for name, c := range map[string]struct {
		pod     string
		change  func(*admissionv1.AdmissionRequest)
		allowed bool
		patched bool
	}{
		"a new pod":                  {asked, nil, true, true},
		"a pod that does not ask":    {"metadata: {name: a}", nil, true, false},
		"a change":                   {asked, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, true, false},
		"a subresource":              {asked, func(r *admissionv1.AdmissionRequest) { r.SubResource = "ephemeralcontainers" }, true, false},
		"another kind":               {asked, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "ConfigMap" }, true, false},
		"a pod of no known shape":    {"spec: {containers: 5}", nil, false, false},
		"a pod that is no object":    {"[]", nil, false, false},
		"nothing":                    {"null", nil, false, false},
		"a pod of a generated name":  {strings.Replace(asked, "name: node-0", "generateName: node-", 1), nil, true, true},
		"a pod without a container":  {"metadata: {annotations: {slurmlet.dev/inject: slurmd}}", nil, false, false},
		"an annotation that is none": {"metadata: {annotations: {slurmlet.dev/inject: 1}}", nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			have := answer(t, review(t, c.pod, c.change))
			assert.Equal(t, c.allowed, have.Allowed, have.Result)
			assert.Equal(t, c.patched, len(have.Patch) > 0)
		})
	}
}

func TestWhatIsNoReview(t *testing.T) {
	good := review(t, changed("slurmd", "", "", ""), nil)
	for name, c := range map[string]struct {
		body   []byte
		header []string
		status int
	}{
		"a review":                {good, nil, http.StatusOK},
		"a review with a charset": {good, []string{"Content-Type", "application/json; charset=utf-8"}, http.StatusOK},
		"another type":            {good, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		"no type":                 {good, []string{"Content-Type", ""}, http.StatusUnsupportedMediaType},
		"no JSON":                 {[]byte("{"), nil, http.StatusBadRequest},
		"nothing":                 {nil, nil, http.StatusBadRequest},
		"another kind":            {[]byte(`{"kind":"Pod","apiVersion":"v1"}`), nil, http.StatusBadRequest},
		"an older version":        {bytes.Replace(good, []byte("admission.k8s.io/v1"), []byte("admission.k8s.io/v1beta1"), 1), nil, http.StatusBadRequest},
		"no request":              {[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`), nil, http.StatusBadRequest},
		"a deep one":              {append(bytes.Repeat([]byte(`{"request":`), 20000), good...), nil, http.StatusBadRequest},
		"a huge one":              {append(bytes.Repeat([]byte(" "), maxReview), good...), nil, http.StatusRequestEntityTooLarge},
	} {
		w := ask(t, c.body, c.header...)
		assert.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
	}
}

func TestOtherPaths(t *testing.T) {
	server := httptest.NewServer(Handler(settings, slog.New(slog.DiscardHandler)))
	defer server.Close()
	for _, c := range []struct {
		method, path string
		status       int
	}{{http.MethodGet, Path, http.StatusMethodNotAllowed}, {http.MethodPost, "/", http.StatusNotFound}, {http.MethodPost, Path + "/x", http.StatusNotFound}} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, c.status, response.StatusCode, c)
	}
}

// FuzzHandler sends what is no review, or hardly one: the handler answers, and an answer has no patch unless it allows.
func FuzzHandler(f *testing.F) {
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{"metadata":{"annotations":{"slurmlet.dev/inject":"slurmd"}},"spec":{"containers":[{}]}}}}`))
	f.Add([]byte(`{"request":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(t, body)
		if w.Code != http.StatusOK {
			require.GreaterOrEqual(t, w.Code, 400)
			require.Less(t, w.Code, 500)
			return
		}
		var r admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		require.True(t, r.Response.Allowed || len(r.Response.Patch) == 0)
	})
}
