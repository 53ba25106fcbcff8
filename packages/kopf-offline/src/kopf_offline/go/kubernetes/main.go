// Command kubernetes is the programs of a Kubernetes node in one; the name that it is run by says
// which. So what they share is linked, copied and unpacked once.
//
// Each case is what the program's own main does. Imports that stand for nothing register what
// all of these mains do: metrics, and logs as JSON.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	_ "time/tzdata" // for time zones in CronJobs

	"github.com/spf13/cobra"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	case "kube-proxy":
		run(proxy.NewProxyCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kubelet":
		run(kubelet.NewKubeletCommand(context.Background()))
	case "kubeadm":
		kubeadmutil.HandleError(kubeadm.Run())
	default:
		fmt.Fprintf(os.Stderr, "%s is no program of a Kubernetes node\n", name)
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
