package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"message-operator/examples/in-go/memcached/api"
)

const (
	finalizer = "cache.example.com/finalizer"
	available = "Available"
	degraded  = "Degraded"
)

type reconciler struct {
	client.Client
	events events.EventRecorder
}

// Reconcile makes the steps of the tutorial, in its order: it begins the status, adds its finalizer,
// creates the Deployment, keeps its size, and says that the Memcached is available.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	memcached := &api.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(memcached.Status.Conditions) == 0 {
		if err := r.report(ctx, memcached, available, metav1.ConditionUnknown, "Starting."); err != nil {
			return ctrl.Result{}, err
		}
		// The tutorial reads it again here, from a cache that may still have the former version.
		if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}
	if controllerutil.AddFinalizer(memcached, finalizer) {
		if err := r.Update(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !memcached.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finish(ctx, memcached)
	}

	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, req.NamespacedName, deployment)
	if apierrors.IsNotFound(err) {
		if err := r.create(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if replicas := memcached.Spec.Replicas; *deployment.Spec.Replicas != replicas {
		deployment.Spec.Replicas = &replicas
		return ctrl.Result{}, r.Update(ctx, deployment) // whose event brings the Memcached back here
	}
	said := fmt.Sprintf("The Deployment %s has %d replicas.", deployment.Name, memcached.Spec.Replicas)
	return ctrl.Result{}, r.report(ctx, memcached, available, metav1.ConditionTrue, said)
}

// report writes the status; like the tutorial it does so whether it differs or not.
func (r *reconciler) report(
	ctx context.Context, memcached *api.Memcached, kind string, status metav1.ConditionStatus, said string,
) error {
	meta.SetStatusCondition(&memcached.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: "Reconciling", Message: said,
	})
	return r.Status().Update(ctx, memcached)
}

func (r *reconciler) create(ctx context.Context, memcached *api.Memcached) error {
	deployment := deploymentFor(memcached)
	if err := controllerutil.SetControllerReference(memcached, deployment, r.Scheme()); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("creating the Deployment", "deployment", deployment.Name)
	return r.Create(ctx, deployment)
}

// finish lets a deleted Memcached go, with a status before and after, though nobody may read them.
func (r *reconciler) finish(ctx context.Context, memcached *api.Memcached) error {
	if err := r.report(ctx, memcached, degraded, metav1.ConditionUnknown, "It is being deleted."); err != nil {
		return err
	}
	r.events.Eventf(memcached, nil, corev1.EventTypeWarning, "Deleting", "Delete", "%s is deleted", memcached.Name)
	if err := r.report(ctx, memcached, degraded, metav1.ConditionTrue, "It can go."); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(memcached, finalizer)
	return r.Update(ctx, memcached)
}
