package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"message-operator/examples/in-go/api"
)

// templateHash is the annotation that tells a Pod of another text or template.
const templateHash = "myorg.dev/template-hash"

var messageImage = flag.String(
	"message-image", "docker.io/library/busybox:1.37", "the message Pods' image: a BusyBox")

const script = `trap 'exit 0' TERM INT
while :; do
  printf '%s\n' "$MESSAGE_TEXT"
  sleep "$MESSAGE_INTERVAL" & wait $!
done
`

// podFor builds the Message's Pod: the same as this project's operator builds.
func podFor(message *api.Message) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "msg-" + message.Name,
			Namespace: message.Namespace,
			Labels: map[string]string{
				"app.kubernetes.io/name":       "message",
				"app.kubernetes.io/instance":   message.Name,
				"app.kubernetes.io/managed-by": "message-operator-go",
			},
			Annotations: map[string]string{"kubectl.kubernetes.io/default-container": "message"},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To(int64(5)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				RunAsUser:      ptr.To(int64(65532)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:    "message",
				Image:   *messageImage,
				Command: []string{"/bin/sh", "-c", script},
				Env: []corev1.EnvVar{
					{Name: "MESSAGE_TEXT", Value: strings.ReplaceAll(message.Spec.Text, "$", "$$")},
					{Name: "MESSAGE_INTERVAL", Value: strconv.Itoa(int(message.Spec.IntervalSeconds))},
				},
				Resources: corev1.ResourceRequirements{
					Requests: resources("1m", "4Mi"),
					Limits:   resources("100m", "16Mi"),
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					ReadOnlyRootFilesystem:   ptr.To(true),
				},
			}},
		},
	}
	content, _ := json.Marshal(pod.Spec) // a PodSpec always marshals
	sum := sha256.Sum256(content)
	pod.Annotations[templateHash] = hex.EncodeToString(sum[:8])
	return pod
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}
}
