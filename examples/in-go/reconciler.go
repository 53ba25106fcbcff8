package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"message-operator/examples/in-go/api"
)

// settle is for how long a Pod may be starting before the status says Pending: one second, and one
// more because creation timestamps have whole seconds. This project's operator has such a rule,
// and without it this one would write each status twice.
const settle = 2 * time.Second

type reconciler struct {
	client.Client
	events events.EventRecorder
}

// Reconcile brings one Message and its Pod together.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	message := &api.Message{}
	if err := r.Get(ctx, req.NamespacedName, message); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !message.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	want := podFor(message)
	if err := controllerutil.SetControllerReference(message, want, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	pod := &corev1.Pod{}
	err := r.Get(ctx, client.ObjectKeyFromObject(want), pod)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, r.create(ctx, message, want)
	case err != nil:
		return ctrl.Result{}, err
	case !pod.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // its deletion brings the Message back here
	case pod.Annotations[templateHash] != want.Annotations[templateHash]:
		logf.FromContext(ctx).Info("deleting the outdated Pod", "pod", pod.Name)
		return ctrl.Result{}, client.IgnoreNotFound(
			r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}))
	}
	return r.report(ctx, message, pod)
}

func (r *reconciler) create(ctx context.Context, message *api.Message, pod *corev1.Pod) error {
	if err := r.Create(ctx, pod); err != nil {
		return client.IgnoreAlreadyExists(err) // the cache is behind: the Pod's event follows
	}
	logf.FromContext(ctx).Info("created the Pod", "pod", pod.Name)
	reason := "Created"
	if message.Status.PodName != "" {
		reason = "Replaced"
	}
	r.events.Eventf(message, nil, corev1.EventTypeNormal, reason, "Create", "Created Pod %s", pod.Name)
	return nil
}

// report writes the status if it differs.
func (r *reconciler) report(ctx context.Context, message *api.Message, pod *corev1.Pod) (ctrl.Result, error) {
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: message.Generation,
		Reason: "PodPending", Message: "The Pod is starting.",
	}
	phase := "Pending"
	if isReady(pod) {
		phase = "Processed"
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, "PodRunning", "The Pod prints the text."
	} else if age := time.Since(pod.CreationTimestamp.Time); age < settle {
		return ctrl.Result{RequeueAfter: settle - age}, nil
	}
	former := message.Status.DeepCopy()
	message.Status.Phase = phase
	message.Status.ObservedGeneration = message.Generation
	message.Status.PodName = pod.Name
	message.Status.NodeName = pod.Spec.NodeName
	meta.SetStatusCondition(&message.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(former, &message.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, message)
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
