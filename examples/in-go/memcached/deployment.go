package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"message-operator/examples/in-go/memcached/api"
)

// deploymentFor builds the Memcached's Deployment: the same as examples/memcached has.
func deploymentFor(memcached *api.Memcached) *appsv1.Deployment {
	labels := map[string]string{
		"app.kubernetes.io/name":     "memcached",
		"app.kubernetes.io/instance": memcached.Name,
	}
	node := corev1.Container{
		Name:    "memcached",
		Image:   "docker.io/library/memcached:1.6",
		Command: []string{"memcached", "--memory-limit=64"},
		Ports:   []corev1.ContainerPort{{Name: "memcached", ContainerPort: 11211}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("memcached")},
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: memcached.Name, Namespace: memcached.Namespace, Labels: labels,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(memcached.Spec.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{node},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsUser:      ptr.To(int64(11211)),
						RunAsNonRoot:   ptr.To(true),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
				},
			},
		},
	}
}
