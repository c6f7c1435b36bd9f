package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// neverError says that a pod will never run.
type neverError struct{ err error }

func (e *neverError) Error() string { return e.err.Error() }
func (e *neverError) Unwrap() error { return e.err }

func never(err error) error { return &neverError{err} }

// waitError is a sandbox.ErrUnavailable in a sentence of its own.
type waitError struct {
	says string
	err  error
}

func (e *waitError) Error() string   { return e.says }
func (e *waitError) Unwrap() []error { return []error{sandbox.ErrUnavailable, e.err} }

// judge says whether the pod's command can be talked to; an error, if it never will.
func judge(pod *v1.Pod) (up bool, err error) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == mainContainer && c.State.Running != nil {
			return true, nil
		}
	}
	if detail, _, ended := ending(pod); ended {
		return false, never(errors.New(detail))
	}
	for _, c := range containers(pod) {
		if c.State.Waiting == nil {
			continue
		}
		why, message := c.State.Waiting.Reason, c.State.Waiting.Message
		switch why {
		case "ErrImagePull", "ImagePullBackOff":
			return false, never(pullError(c.Image, message))
		case "InvalidImageName", "ErrImageNeverPull":
			return false, never(noImage(c.Image, message))
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return false, never(&run.UserError{
				Message: fmt.Sprintf("the cluster cannot run the image %q: %s", c.Image, message),
				Hint:    "try the image in a pod of your own; with a runtime class, see that the node has it",
			})
		}
	}
	return false, nil
}

func containers(pod *v1.Pod) []v1.ContainerStatus {
	return append(pod.Status.InitContainerStatuses[:len(pod.Status.InitContainerStatuses):len(pod.Status.InitContainerStatuses)],
		pod.Status.ContainerStatuses...)
}

// pullError tells an image that is not there from a registry that is not.
func pullError(image, message string) error {
	for _, sign := range []string{
		"not found", "manifest unknown", "no such image", "pull access denied", "unauthorized", "authentication required",
		"insufficient_scope", "403 Forbidden", "401 Unauthorized", "denied",
	} {
		if strings.Contains(message, sign) {
			return noImage(image, message)
		}
	}
	return fmt.Errorf("%w: the cluster cannot pull the image %q: %s", sandbox.ErrNoRegistry, image, message)
}

func noImage(image, message string) error {
	return &run.UserError{
		Message: fmt.Sprintf("the cluster cannot get the image %q", image),
		Hint: "push it to a registry that the nodes reach, name another image, or give the namespace's default service " +
			"account the registry's pull secret",
		Err: fmt.Errorf("%w: %s", sandbox.ErrNoImage, message),
	}
}

// waiting says what a pod waits for, for people.
func waiting(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return "the cluster has no place for the pod: " + c.Message
		}
	}
	for _, c := range containers(pod) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return fmt.Sprintf("the pod waits for its container: %s: %s", w.Reason, w.Message)
		}
	}
	if pod.Spec.NodeName == "" {
		return "no scheduler has given the pod a node"
	}
	return "the node " + pod.Spec.NodeName + " has not begun to run the pod"
}

// ending says how a pod ended that the shim has not told of, if it has ended.
func ending(pod *v1.Pod) (detail string, oom, ended bool) {
	for _, c := range containers(pod) {
		t := c.State.Terminated
		if t == nil || c.Name == initContainer && t.ExitCode == 0 {
			continue
		}
		ended = true
		switch {
		case t.Reason == "OOMKilled":
			oom, detail = true, "it needed more memory than it may have, and all of it was killed"
		case c.Name == initContainer:
			detail = fmt.Sprintf("the pod could not be laid out: the bot's image %q ended with exit code %d: %s", c.Image, t.ExitCode,
				sentence(t.Reason, t.Message))
		case detail == "":
			detail = fmt.Sprintf("the pod's first process ended with exit code %d: %s", t.ExitCode,
				sentence(t.Reason, t.Message))
		}
	}
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		ended = true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && !oom {
			return "the cluster took the pod away: " + sentence(c.Reason, c.Message), oom, ended
		}
	}
	if ended && pod.Status.Reason != "" {
		switch pod.Status.Reason {
		case "Evicted":
			detail = "the node evicted the pod: " + pod.Status.Message
		case "DeadlineExceeded":
			detail = "nobody fetched what came of it for a day, and the cluster ended the pod"
		default:
			detail = "the pod ended: " + sentence(pod.Status.Reason, pod.Status.Message)
		}
	}
	if ended && detail == "" {
		detail = "the pod ended, and the cluster does not say why"
	}
	return detail, oom, ended
}

func sentence(reason, message string) string {
	if message == "" {
		return reason
	}
	return message
}

// explain makes of what the API server says what callers decide on, and people understand.
func explain(err error) error {
	var user *run.UserError
	switch {
	case err == nil, errors.As(err, &user), errors.Is(err, sandbox.ErrUnavailable):
		return err
	case away(err):
		return &waitError{"the cluster does not answer: " + err.Error(), err}
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return &waitError{"the namespace's quota is used up: " + err.Error(), err}
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "violates PodSecurity"):
		return &run.UserError{
			Message: "the cluster's Pod Security refuses the pod",
			Hint:    "the pods of the bot keep to the level restricted; give their namespace no other rules", Err: err,
		}
	case isNoRight(err):
		// An API server that has just begun says so, too, for a moment. Check tells a person.
		return &waitError{"the bot may not do in the cluster what it has to: " + err.Error(), err}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &run.UserError{
			Message: "the cluster refuses the pod: " + err.Error(),
			Hint:    "see which admission policy of the cluster, or which setting of the sandbox, that is", Err: err,
		}
	case apierrors.IsUnauthorized(err):
		return &run.UserError{
			Message: "the cluster does not know the bot", Hint: "renew the credentials of its kubeconfig or service account", Err: err,
		}
	default:
		return err
	}
}

// isNoRight says whether the bot's role does not allow it.
func isNoRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ")
}

// away says whether the API server does not answer, or not now.
func away(err error) bool {
	var network net.Error
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded)
}
