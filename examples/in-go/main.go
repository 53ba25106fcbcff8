// The Message operator as a kubebuilder user would write it, on controller-runtime with its defaults.
// docs/in-go.md explains it, and the benchmark measures it; -workers 10 -slim is how experts tune it.
package main

import (
	"flag"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"message-operator/examples/in-go/api"
)

func main() {
	workers := flag.Int("workers", 1, "MaxConcurrentReconciles; 1 is the library's default")
	slim := flag.Bool("slim", false, "keep in the cache only what the operator reads")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*workers, *slim); err != nil {
		ctrl.Log.Error(err, "the operator has failed")
		os.Exit(1)
	}
}

func run(workers int, slim bool) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	options := ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if slim {
		options.Cache.DefaultTransform = slimmed
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&api.Message{}).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorder("message-operator")})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// slimmed keeps of an object what the operator reads: nothing of its managers, and little of a Pod.
func slimmed(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
		pod.Status = corev1.PodStatus{Conditions: pod.Status.Conditions}
		pod.Labels = nil
	}
	if known, ok := object.(metav1.Object); ok {
		known.SetManagedFields(nil)
	}
	return object, nil
}
