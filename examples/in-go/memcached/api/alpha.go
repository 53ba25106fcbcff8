package api

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// AlphaGroupVersion is that of the older Memcached.
var AlphaGroupVersion = schema.GroupVersion{Group: "cache.example.com", Version: "v1alpha1"}

const (
	// kept is the annotation with the limit that the older version lacks.
	kept               = "cache.example.com/connections"
	defaultConnections = 1024
)

// AlphaMemcachedSpec is what the user declares in the older version.
type AlphaMemcachedSpec struct {
	Size   int32 `json:"size,omitempty"`
	Memory int32 `json:"memory,omitempty"`
}

// AlphaMemcached is a Memcached of v1alpha1.
type AlphaMemcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AlphaMemcachedSpec `json:"spec,omitempty"`
	Status MemcachedStatus    `json:"status,omitempty"`
}

// Hub marks the version through which the others are converted.
func (m *Memcached) Hub() {}

// ConvertTo makes a Memcached of v1beta1.
func (a *AlphaMemcached) ConvertTo(hub conversion.Hub) error {
	m := hub.(*Memcached)
	a.ObjectMeta.DeepCopyInto(&m.ObjectMeta)
	limits := Limits{Memory: a.Spec.Memory, Connections: defaultConnections}
	if text, ok := m.Annotations[kept]; ok {
		connections, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return err
		}
		limits.Connections = int32(connections)
		delete(m.Annotations, kept)
	}
	m.Spec = MemcachedSpec{Replicas: a.Spec.Size, Limits: limits}
	m.Status = a.Status
	return nil
}

// ConvertFrom makes a Memcached of v1alpha1.
func (a *AlphaMemcached) ConvertFrom(hub conversion.Hub) error {
	m := hub.(*Memcached)
	m.ObjectMeta.DeepCopyInto(&a.ObjectMeta)
	a.Spec = AlphaMemcachedSpec{Size: m.Spec.Replicas, Memory: m.Spec.Limits.Memory}
	if connections := m.Spec.Limits.Connections; connections != defaultConnections {
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[kept] = strconv.Itoa(int(connections))
	}
	a.Status = m.Status
	return nil
}

// DeepCopyObject copies the Memcached.
func (a *AlphaMemcached) DeepCopyObject() runtime.Object {
	out := &AlphaMemcached{TypeMeta: a.TypeMeta, Spec: a.Spec}
	a.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	a.Status.deepCopyInto(&out.Status)
	return out
}
