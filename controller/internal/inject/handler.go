package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Path is where the API server asks, and QueuePath where it asks about pods that wait in Slurm's queue.
const Path, QueuePath = "/inject", "/queue"

const (
	// maxReview is some ten times what a large pod has. With the number of callers it bounds the memory.
	maxReview = 512 << 10
	// maxElements and maxValues bound what a review has in its arrays, and in all: an element of two bytes may be
	// a container, which takes kilobytes in memory. A pod with 1,000 variables has 1,100 and 12,000.
	maxElements, maxValues = 4_000, 25_000
	// maxAnswer bounds what a caller holds that does not read it. An injected pod's has some 10 kB.
	maxAnswer = 256 << 10
	// workers is how many reviews are answered at once.
	workers = 4
)

// workTime is how long a review waits until others are answered. The API server waits for 10 s.
const workTime = 8 * time.Second

// Handler answers the API server. It changes nothing but its answer, so a dry run is like any other,
// and anybody may ask: the answer has nothing that is not in the question or in every injected pod.
func Handler(s Settings, log *slog.Logger) http.Handler {
	all := map[string]work{}
	for path, change := range map[string]change{
		Path:      func(pod *corev1.Pod) (*Result, field.ErrorList) { return Pod(pod, s) },
		QueuePath: queued,
	} {
		all[path] = func(review []byte) ([]byte, int, error) { return answerTo(review, change, log) }
	}
	return handlers(make(slots, workers), workTime, all)
}

// change is what the webhook does to a pod. A Result with the same pod changes nothing.
type change func(pod *corev1.Pod) (*Result, field.ErrorList)

// handlers have a review wait for one of the slots for so long, whatever its path is.
func handlers(d slots, wait time.Duration, all map[string]work) http.Handler {
	mux := http.NewServeMux()
	for path, work := range all {
		mux.HandleFunc("POST "+path, d.handle(wait, work))
	}
	return mux
}

// handle answers on one path.
func (d slots) handle(wait time.Duration, work work) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, status, err := d.answer(w, r, wait, work)
		if callerIn(r.Context()).awaited() {
			w.Header().Set("Connection", "close")
		}
		if err != nil {
			if status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "2")
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the API server may have gone
	}
}

// work makes the answer to a review, or says with which status there is none.
type work func(review []byte) (answer []byte, status int, err error)

// slots has a place for each review at work: work goes on when its client hangs up.
type slots chan struct{}

// answer reads the review before it takes a place, because the sender may be slow.
func (d slots) answer(w http.ResponseWriter, r *http.Request, wait time.Duration, work work) ([]byte, int, error) {
	body, status, err := readBody(w, r)
	if err != nil {
		return nil, status, err
	}
	caller := callerIn(r.Context())
	caller.works(true)
	defer caller.works(false)
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	select {
	case d <- struct{}{}:
		defer func() { <-d }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // or there are a place and an end at once
		return nil, http.StatusServiceUnavailable, errors.New("too many reviews wait for their answers")
	}
	return work(body)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, int, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("cannot read %q: want application/json", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("cannot read more than %d bytes", maxReview)
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("cannot read the request")
	}
	return body, 0, nil
}

// answerTo is the answer to a review, as JSON.
func answerTo(body []byte, change change, log *slog.Logger) (text []byte, status int, err error) {
	review, status, err := readReview(body)
	if err != nil {
		return nil, status, err
	}
	answer := admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: admit(review.Request, change, log)}
	text, err = json.Marshal(answer)
	switch {
	case err != nil:
		return nil, http.StatusInternalServerError, fmt.Errorf("cannot write the answer: %w", err)
	case len(text) > maxAnswer:
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("cannot answer with more than %d bytes", maxAnswer)
	}
	return text, 0, nil
}

func readReview(body []byte) (*admissionv1.AdmissionReview, int, error) {
	if inArrays, all := weigh(body); inArrays > maxElements || all > maxValues {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("cannot read more than %d elements of arrays and %d values", maxElements, maxValues)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("cannot read the AdmissionReview: %w", err)
	}
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	if review.GroupVersionKind() != want || review.Request == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("want a request of %s", want)
	}
	return &review, 0, nil
}

// weigh says how many elements the arrays of a JSON text have at most, and how many values there are in all.
func weigh(text []byte) (inArrays, all int) {
	var open []byte // brackets
	for n := 0; n < len(text); n++ {
		switch c := text[n]; c {
		case '"':
			for n++; n < len(text) && text[n] != '"'; n++ {
				if text[n] == '\\' {
					n++
				}
			}
		case '{', '[':
			open = append(open, c)
			all++
			if c == '[' {
				inArrays++
			}
		case '}', ']':
			open = open[:max(len(open)-1, 0)]
		case ',':
			all++
			if len(open) > 0 && open[len(open)-1] == '[' {
				inArrays++
			}
		}
	}
	return inArrays, all
}

// admit answers one request. It refuses what it cannot read, because the pod may have asked for the agent.
func admit(request *admissionv1.AdmissionRequest, change change, log *slog.Logger) *admissionv1.AdmissionResponse {
	answer := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	want := corev1.SchemeGroupVersion.WithKind("Pod")
	if request.Operation != admissionv1.Create || request.SubResource != "" || request.Kind != metav1.GroupVersionKind(want) {
		return answer
	}
	var pod corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		return refuse(answer, apierrors.NewBadRequest(fmt.Sprintf("cannot read the pod: %v", err)))
	}
	if pod.Namespace == "" {
		pod.Namespace = request.Namespace
	}
	who := []any{"namespace", request.Namespace, "pod", nameOf(&pod), "dryRun", request.DryRun != nil && *request.DryRun}
	result, faults := change(&pod)
	if len(faults) > 0 {
		log.Debug("a pod is refused", append(who, "reason", reason(faults))...)
		return refuse(answer, apierrors.NewInvalid(want.GroupKind(), nameOf(&pod), faults))
	}
	if result.Pod == &pod {
		return answer
	}
	operations, err := Patch(&pod, result.Pod)
	if err != nil {
		return refuse(answer, apierrors.NewInternalError(err))
	}
	if len(operations) == 0 {
		return answer
	}
	if answer.Patch, err = json.Marshal(operations); err != nil {
		return refuse(answer, apierrors.NewInternalError(fmt.Errorf("cannot write the patch: %w", err)))
	}
	answer.PatchType = new(admissionv1.PatchTypeJSONPatch)
	answer.Warnings = result.Did
	if did := strings.Join(result.Did, "; "); did != "" {
		answer.AuditAnnotations = map[string]string{"injected": did}
	}
	log.Debug("a pod is changed", append(who, "did", strings.Join(result.Did, "; "))...)
	return answer
}

func refuse(answer *admissionv1.AdmissionResponse, err *apierrors.StatusError) *admissionv1.AdmissionResponse {
	answer.Allowed, answer.Result = false, &err.ErrStatus
	answer.AuditAnnotations = map[string]string{"refused": err.ErrStatus.Message}
	return answer
}

func reason(faults field.ErrorList) string { return faults.ToAggregate().Error() }

// nameOf is the pod's name, or the beginning of the one that it will get.
func nameOf(pod *corev1.Pod) string {
	if pod.Name == "" {
		return pod.GenerateName
	}
	return pod.Name
}
