// A peer for the benchmark: the Memcached operator as somebody has it who has followed the tutorial
// of operator-sdk in Go to its end. It reconciles two Memcacheds at once, as the tutorial shows. With
// -webhook-port it converts and validates them, too.
package main

import (
	"flag"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"message-operator/examples/in-go/memcached/api"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the operator has failed")
		os.Exit(1)
	}
}

func run() error {
	port := flag.Int("webhook-port", 0, "where reviews are answered, if anywhere")
	certificate := flag.String("webhook-certificate", "", "folder with tls.crt and tls.key")
	flag.Parse()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: *port, CertDir: *certificate,
		}),
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&api.Memcached{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorder("memcached-controller")})
	if err != nil {
		return err
	}
	if *port != 0 {
		err = ctrl.NewWebhookManagedBy(manager, &api.Memcached{}).WithValidator(validator{}).Complete()
		if err != nil {
			return err
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
