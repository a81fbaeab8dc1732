package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Path is where the API server asks.
const Path = "/inject"

// maxReview is some ten times what a large pod has. With the number of connections it bounds the memory.
const maxReview = 512 << 10

// Handler answers the API server. It changes nothing but its answer, so a dry run is like any other,
// and anybody may ask: the answer has nothing that is not in the question or in every injected pod.
func Handler(s Settings, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) {
		review, status, err := readReview(w, r)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		answer := admit(review.Request, s, log)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer}) // the API server has gone
	})
	return mux
}

func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, int, error) {
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

// admit answers one request. It refuses what it cannot read, because the pod may have asked for the agent.
func admit(request *admissionv1.AdmissionRequest, s Settings, log *slog.Logger) *admissionv1.AdmissionResponse {
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
	result, faults := Pod(&pod, s)
	if len(faults) > 0 {
		log.Debug("a pod is refused", append(who, "reason", reason(faults))...)
		return refuse(answer, apierrors.NewInvalid(want.GroupKind(), nameOf(&pod), faults))
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
	answer.AuditAnnotations = map[string]string{"injected": result.Pod.Annotations[Mark]}
	log.Debug("a pod gets the agent", append(who, "did", result.Pod.Annotations[Mark])...)
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
